package vm

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// signManifest makes a saved guest whole again around other devices.
func signManifest(t *testing.T, s *saved, devices []byte) {
	t.Helper()
	b, err := os.ReadFile(s.manifestFile())
	if err != nil {
		t.Fatal(err)
	}
	var mf manifest
	if err := json.Unmarshal(b, &mf); err != nil {
		t.Fatal(err)
	}
	mf.Devices = crc32.Checksum(devices, castagnoli)
	if b, err = json.Marshal(mf); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.manifestFile(), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Memory comes back byte for byte, holes included, and a hole takes no disk.
func TestMemoryThereAndBack(t *testing.T) {
	const size = 64 << 20
	ram, err := memory("test", size)
	if err != nil {
		t.Fatal(err)
	}
	defer ram.Close()
	for at, s := range map[int64]string{0: "begin", 10 << 20: "middle", size - 4: "last"} {
		if _, err := ram.WriteAt([]byte(s), at); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "memory")
	extents, sum, err := saveMemory(ram, file)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Size() > 1<<20 {
		t.Errorf("three pages take %d bytes, %v", st.Size(), err)
	}
	back, err := memory("test", size)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	got, err := loadMemory(back, file, extents)
	if err != nil || got != sum {
		t.Errorf("checksum %x, want %x, %v", got, sum, err)
	}
	a, b := make([]byte, size), make([]byte, size)
	ram.ReadAt(a, 0)
	back.ReadAt(b, 0)
	if string(a) != string(b) {
		t.Error("the memory differs")
	}
}
