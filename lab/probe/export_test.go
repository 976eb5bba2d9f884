package probe

import "github.com/cilium/ebpf"

// Pause stops the reader after at most one more event.
func (p *Probe) Pause() (resume func()) {
	p.mu.Lock()
	return p.mu.Unlock
}

// ProgramIDs are the kernel's numbers of the loaded programs.
func (p *Probe) ProgramIDs() ([]ebpf.ProgramID, error) {
	var ids []ebpf.ProgramID
	for _, prog := range p.coll.Programs {
		info, err := prog.Info()
		if err != nil {
			return nil, err
		}
		id, _ := info.ID()
		ids = append(ids, id)
	}
	return ids, nil
}
