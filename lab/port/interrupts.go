package port

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Interrupt is that of a queue of a port, or of a pair of queues.
type Interrupt struct {
	IRQ   int
	Queue int
	// CPUs that may take it, as the kernel writes lists: "0-3,8".
	CPUs string
	// Advised is the CPU that is to take it alone.
	Advised int
}

// queueInterrupt is how drivers name the interrupt of a queue: eth0-TxRx-0,
// virtio0-input.0, mlx5_comp0@pci:0000:03:00.0. The interrupt eth0 is of no queue.
var queueInterrupt = regexp.MustCompile(`^[^@]*(?:[-.]|comp)(\d+)(?:@.*)?$`)

// irqs are the numbers of the MSI interrupts of a PCI function, in order.
func irqs(pci string) ([]int, error) {
	if pci == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join("/sys/bus/pci/devices", pci, "msi_irqs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

func affinityPath(irq int) string { return fmt.Sprintf("/proc/irq/%d/smp_affinity_list", irq) }

// affinities are the CPUs that may take each interrupt of a PCI function: of those
// that its driver has asked for, in the order of their numbers, which change.
func affinities(pci string) (numbers []int, cpus []string, err error) {
	all, err := irqs(pci)
	for _, irq := range all {
		text, e := os.ReadFile(affinityPath(irq))
		switch {
		case errors.Is(e, fs.ErrNotExist):
		case e != nil:
			err = errors.Join(err, e)
		default:
			numbers = append(numbers, irq)
			cpus = append(cpus, strings.TrimSpace(string(text)))
		}
	}
	return numbers, cpus, err
}

func setAffinity(irq int, cpus string) error {
	if err := os.WriteFile(affinityPath(irq), []byte(cpus), 0); err != nil {
		return fmt.Errorf("interrupt %d to CPU %s: %w", irq, cpus, err)
	}
	return nil
}

// interrupts are those of the queues of a PCI function, by queue.
func interrupts(pci string) ([]Interrupt, error) {
	numbers, cpus, err := affinities(pci)
	if err != nil {
		return nil, err
	}
	near := nearCPUs(pci)
	var found []Interrupt
	for i, irq := range numbers {
		actions, err := os.ReadDir(fmt.Sprintf("/proc/irq/%d", irq))
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			m := queueInterrupt.FindStringSubmatch(a.Name())
			if m == nil || !a.IsDir() {
				continue
			}
			queue, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, err
			}
			found = append(found, Interrupt{IRQ: irq, Queue: queue, CPUs: cpus[i], Advised: near[queue%len(near)]})
			break
		}
	}
	slices.SortStableFunc(found, func(a, b Interrupt) int { return a.Queue - b.Queue })
	return found, nil
}

// nearCPUs are the CPUs of the port's NUMA node, and of those the ones that the
// scheduler leaves alone (isolcpus), where there are such.
func nearCPUs(pci string) []int {
	read := func(path string) []int {
		text, _ := os.ReadFile(path)
		cpus, _ := parseCPUs(string(text)) // what the kernel does not tell is no advice
		return cpus
	}
	online := read("/sys/devices/system/cpu/online")
	near := online
	for _, path := range []string{filepath.Join("/sys/bus/pci/devices", pci, "local_cpulist"), "/sys/devices/system/cpu/isolated"} {
		set := read(path)
		narrower := slices.DeleteFunc(slices.Clone(near), func(cpu int) bool { return !slices.Contains(set, cpu) })
		if len(narrower) > 0 {
			near = narrower
		}
	}
	if len(near) == 0 {
		return []int{0}
	}
	return near
}

// parseCPUs reads a list as the kernel writes it.
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		if part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no list of CPUs: %w", list, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// placeInterrupts gives the interrupt of each queue a CPU of its own, once the
// port is up, and records where they were before.
func (r *Record) placeInterrupts() error {
	queues, err := interrupts(r.PCI)
	if err != nil {
		return err
	}
	if len(queues) == 0 {
		return errors.New("its driver has no interrupt for each queue: nothing to place on CPUs")
	}
	if _, r.Settings.Interrupts, err = affinities(r.PCI); err != nil {
		return err
	}
	if err := r.write(); err != nil {
		return fmt.Errorf("record where its interrupts are, none was moved: %w", err)
	}
	reached("interrupts recorded")
	for _, q := range queues {
		if err := setAffinity(q.IRQ, strconv.Itoa(q.Advised)); err != nil {
			return fmt.Errorf("queue %d: %w (drivers may keep an interrupt to themselves)", q.Queue, err)
		}
	}
	reached("interrupts placed")
	return nil
}
