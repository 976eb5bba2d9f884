// Package feature finds out what the running kernel can do, by doing it: each
// feature is tried in a network namespace of its own that ends with the trial.
// The kernel's version is never asked, since distributions backport.
//
// A probe has three different outcomes: the feature is there, it is missing
// (*Missing), or the probe itself failed (any other error). The package changes
// nothing outside its namespaces; the kernel may load a module for a probe, as
// it would for the lab.
package feature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Feature is something that a kernel can have or lack.
type Feature struct {
	// Name, as topologies and cases write it, "seg6.dt46".
	Name string
	// About is what it is, "VRF devices".
	About string
	// Since is the first Linux version that has it, for the user only: a
	// distribution's kernel may have it earlier.
	Since string
	// Config is the kernel's option for it, empty when no kernel is known to
	// have the feature.
	Config string
	// Module that the feature may be in, if any.
	Module string
	// Probe tries the feature in a fresh network namespace, on a thread that
	// nothing else uses and with lo up. An error made with Absent says that the
	// kernel lacks the feature, any other one that the probe failed.
	Probe func() error
}

// Missing is the error for a feature that the kernel lacks.
type Missing struct {
	Feature
	// Err is what the kernel answered.
	Err error
}

// Error names the feature, the remedy and the kernel's answer in one line.
func (m *Missing) Error() string {
	return fmt.Sprintf("%s: this kernel lacks %s: %s: %v", m.Name, m.About, m.Remedy(), m.Err)
}

// Unwrap is the kernel's answer.
func (m *Missing) Unwrap() error { return m.Err }

// Remedy says what gives the user the feature.
func (m *Missing) Remedy() string {
	if m.Config == "" {
		return "do without it, no Linux is known to have it"
	}
	var options []string
	if m.Module != "" {
		options = append(options, "modprobe "+m.Module)
	}
	kernel := "take a kernel with " + m.Config
	if m.Since != "" {
		kernel = "take Linux " + m.Since + " or later with " + m.Config
	}
	options = append(options, kernel, "or a guest with such a kernel (--kernel)")
	return strings.Join(options, ", ")
}

// absent marks the errors of probes that mean that the kernel lacks the feature.
type absent struct{ error }

func (a absent) Unwrap() error { return a.error }

// Absent makes the error of a probe say that the kernel lacks the feature, and
// not that the probe failed. It is nil for nil.
func Absent(err error) error {
	if err == nil {
		return nil
	}
	return absent{err}
}

// UnknownError is the error for a name that no feature has.
type UnknownError struct{ Name string }

// Error names the features that there are.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("no feature is called %q: there are %s", e.Name, strings.Join(Names(), ", "))
}

// entry is a feature and, once it has been probed, the outcome.
type entry struct {
	Feature
	result func() error
}

var (
	mu      sync.Mutex
	entries = func() (all []*entry) {
		for _, f := range slices.Concat(deviceFeatures, seg6Features) {
			all = append(all, newEntry(f))
		}
		return all
	}()
)

func newEntry(f Feature) *entry {
	return &entry{f, sync.OnceValue(func() error { return probe(f) })}
}

// Register adds a feature that another package can probe. It panics when the
// name is taken, as that is a mistake in the program.
func Register(f Feature) {
	mu.Lock()
	defer mu.Unlock()
	if slices.ContainsFunc(entries, func(e *entry) bool { return e.Name == f.Name }) {
		panic("feature " + f.Name + " is registered twice")
	}
	entries = append(entries, newEntry(f))
}

func snapshot() []*entry {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(entries)
}

// Names returns the names of all features.
func Names() []string {
	var names []string
	for _, e := range snapshot() {
		names = append(names, e.Name)
	}
	return names
}

// Probe reports whether the kernel has the feature of that name: nil when it
// has, *Missing when it lacks it, *UnknownError when there is no such feature,
// and another error when the probe failed. The first answer is kept for the life
// of the process. Probe is safe for concurrent use and needs root.
func Probe(name string) error {
	for _, e := range snapshot() {
		if e.Name == name {
			return e.result()
		}
	}
	return &UnknownError{name}
}

// Result is the outcome of the probe of a feature.
type Result struct {
	Feature
	// Err is nil, *Missing or the failure of the probe, as Probe returns it.
	Err error
}

// All probes every feature.
func All() []Result {
	var all []Result
	for _, e := range snapshot() {
		all = append(all, Result{e.Feature, e.result()})
	}
	return all
}

// probe runs the probe of f, uncached.
func probe(f Feature) error {
	err := inScratch(f.Probe)
	var lacks absent
	switch {
	case err == nil:
		return nil
	case errors.As(err, &lacks):
		return &Missing{Feature: f, Err: err}
	default:
		return fmt.Errorf("probe %s: %w", f.Name, err)
	}
}
