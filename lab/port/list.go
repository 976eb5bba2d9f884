package port

import (
	"cmp"
	"errors"
	"slices"
)

// List tells the ports of this network namespace and those that are bound, sorted
// by name; virtual devices only where all is set or they are bound. The error tells
// what could not be read; what could be is returned with it.
func List(all bool) ([]*Facts, error) {
	from, err := home()
	if err != nil {
		return nil, err
	}
	defer from.close()
	records, recordsErr := Records()
	records = slices.DeleteFunc(records, (*Record).Outdated)
	var found []*Facts
	err = from.do(func() error {
		around, err := lookAround()
		if err != nil {
			return err
		}
		for _, f := range around.links {
			if !all && !f.real() || slices.ContainsFunc(records, func(r *Record) bool { return r.matches(f, from) != no }) {
				continue
			}
			f.Refused = around.refusals(f)
			found = append(found, f)
		}
		return nil
	})
	for _, r := range records {
		f, e := r.facts()
		err = errors.Join(err, e)
		found = append(found, f)
	}
	for _, f := range found {
		var e error
		f.Interrupts, e = interrupts(f.PCI)
		err = errors.Join(err, e)
	}
	slices.SortFunc(found, func(a, b *Facts) int { return cmp.Compare(a.Name, b.Name) })
	return found, errors.Join(err, recordsErr)
}

// facts are those of a bound port, by the name that it has at home.
func (r *Record) facts() (*Facts, error) {
	f := &Facts{Driver: r.Driver, PCI: r.PCI, Kind: r.Kind, PermMAC: r.PermMAC, MAC: r.Settings.MAC, NUMANode: -1, State: Missing}
	err := r.visit(func(p place) error {
		*f = *p.facts
		switch {
		case p.named(r):
			f.State = Bound
		case p.ns.cookie == r.Home:
			f.State = Home
		default:
			f.State = Lost
		}
		return nil
	})
	f.Name, f.AltNames = r.Settings.Name, r.Settings.AltNames
	f.Lab, f.End = r.Lab, r.End().String()
	if missing := (*MissingError)(nil); errors.As(err, &missing) {
		err = nil
	}
	return f, err
}
