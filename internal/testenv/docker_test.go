package testenv

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"
)

// Networks of test processes that were killed are removed, those of processes that run
// are not.
func TestDockerNetworksOfKilledTests(t *testing.T) {
	t.Parallel()
	cli, err := docker()
	if err != nil {
		t.Skipf("Docker is optional: %v", err)
	}
	ours, remove, err := startDockerNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	left := workDirPrefix + rand.Text()
	_, err = cli.NetworkCreate(t.Context(), left, client.NetworkCreateOptions{
		Labels: map[string]string{labelHost: host, labelOwner: filepath.Join(t.TempDir(), "gone")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cli.NetworkRemove(context.Background(), left, client.NetworkRemoveOptions{}) // gone if all is well
	})
	removeOrphans(t.Context(), cli)
	if _, err := cli.NetworkInspect(t.Context(), left, client.NetworkInspectOptions{}); err == nil {
		t.Error("the network of a process that is gone is there after removeOrphans")
	}
	if _, err := cli.NetworkInspect(t.Context(), ours, client.NetworkInspectOptions{}); err != nil {
		t.Errorf("the network of a process that runs = %v after removeOrphans, want it left alone", err)
	}
}
