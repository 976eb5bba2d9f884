package probe

// Pause stops the reader after at most one more event.
func (p *Probe) Pause() (resume func()) {
	p.mu.Lock()
	return p.mu.Unlock
}
