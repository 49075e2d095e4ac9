package etcd

import "testing"

func TestEarlyLeases(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{
		"3.3.27": true, "3.4.23": true, "3.4.30": true, "3.4.31": false, "3.4.45": false,
		"3.5.0": true, "3.5.12": true, "3.5.13": false, "3.5.13-rc.0": false, "3.6.0": false, "3.7.3": false, "": true,
	} {
		if got := earlyLeases(v); got != want {
			t.Errorf("earlyLeases(%q) = %v, want %v", v, got, want)
		}
	}
}
