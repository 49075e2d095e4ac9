package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Labels of our containers: the machine and the work directory of the test
// process that a container belongs to.
const (
	labelHost  = "org.idem-go.testenv.host"
	labelOwner = "org.idem-go.testenv.owner"
)

const (
	dockerAnswer  = 10 * time.Second // an engine that takes longer counts as none
	dockerStalled = 20 * time.Second // a download without a byte
	dockerCall    = time.Minute
	dockerTry     = 5 * time.Second // one look whether a server answers
)

// docker is the engine, found once a process.
var docker = sync.OnceValues(func() (*testcontainers.DockerClient, error) {
	// The reaper is one more image to download. Containers whose owner is gone are
	// removed by their labels instead, unless the reaper is asked for.
	if os.Getenv("TESTCONTAINERS_RYUK_DISABLED") == "" {
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return nil, err
		}
	}
	log.SetDefault(log.NewNoopLogger()) // a banner in every test's output
	ctx, cancel := context.WithTimeout(context.Background(), dockerAnswer)
	defer cancel()
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker engine answers: %w", err)
	}
	if _, err := cli.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("no Docker engine answers: %w", err), cli.Close())
	}
	removeOrphans(ctx, cli)
	onShutdown(cli.Close)
	return cli, nil
})

// removeOrphans removes the containers of test processes that were killed.
func removeOrphans(ctx context.Context, cli *testcontainers.DockerClient) {
	host, err := os.Hostname()
	if err != nil {
		return
	}
	filter := make(client.Filters).Add("label", labelHost+"="+host)
	list, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return // the engine will say so again when it matters
	}
	for _, c := range list.Items {
		if !ownerAlive(c.Labels[labelOwner]) {
			_, _ = cli.ContainerRemove(ctx, c.ID, removeAll) // another process may be at it too
		}
	}
	networks, err := cli.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return
	}
	for _, n := range networks.Items {
		if !ownerAlive(n.Labels[labelOwner]) {
			_, _ = cli.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		}
	}
}

// ownerLabels say whose a container or a network is.
func ownerLabels() (map[string]string, error) {
	owner, err := workDir()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	return map[string]string{labelHost: host, labelOwner: owner}, err
}

var removeAll = client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}

// dockerServer is a container.
type dockerServer struct {
	cli     *testcontainers.DockerClient
	id      string
	hosts   []string // where its port may be reached: a machine can't tell by itself
	port    string
	address string

	done chan struct{}
	wait sync.WaitGroup
}

// startContainer runs an image with its port published, the same one for the
// container's life. ask gets an address and tells whether the server answers
// there.
func startContainer(req testcontainers.ContainerRequest, port string, within time.Duration, ask func(addr string) func(context.Context) error) (*dockerServer, error) {
	cli, err := docker()
	if err != nil {
		return nil, err
	}
	if err := haveImage(cli, req.Image); err != nil {
		return nil, err
	}
	if req.Labels, err = ownerLabels(); err != nil {
		return nil, err
	}
	published, err := freePort()
	if err != nil {
		return nil, err
	}
	req.ExposedPorts = []string{port}
	req.HostConfigModifier = func(c *container.HostConfig) {
		c.PortBindings = network.PortMap{network.MustParsePort(port): {{HostPort: strconv.Itoa(published)}}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
	defer cancel()
	ctr, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{ContainerRequest: req, Started: true, Logger: log.NewNoopLogger()})
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(ctr))
	}
	d := &dockerServer{cli: cli, id: ctr.GetContainerID(), hosts: []string{"127.0.0.1"}, port: strconv.Itoa(published)}
	if guess, err := ctr.Host(ctx); err == nil {
		d.hosts = append(d.hosts, guess)
	}
	d.watch()
	err = waitReady(d, within, func(ctx context.Context) error {
		var errs []error
		for _, h := range d.hosts {
			addr := net.JoinHostPort(h, d.port)
			// A guess that is wrong may lead to where nobody ever answers.
			once, cancel := context.WithTimeout(ctx, dockerTry)
			err := ask(addr)(once)
			cancel()
			if err == nil {
				d.address = addr
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// haveImage makes sure that the engine has the image, or can get it.
func haveImage(cli *testcontainers.DockerClient, image string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := cli.ImageInspect(ctx, image); err == nil {
		return nil
	}
	stalled := time.AfterFunc(dockerStalled, cancel)
	defer stalled.Stop()
	pull, err := cli.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return fmt.Errorf("the engine has no image %s and can't get it: %w", image, err)
	}
	defer func() { _ = pull.Close() }() // read to its end or given up
	for _, err := range pull.JSONMessages(ctx) {
		if err != nil {
			return fmt.Errorf("the engine has no image %s and can't get it: %w", image, err)
		}
		stalled.Reset(dockerStalled)
	}
	if _, err := cli.ImageInspect(ctx, image); err != nil {
		return fmt.Errorf("image %s after the download: %w", image, err)
	}
	return nil
}

// watch closes done when the container ends.
func (d *dockerServer) watch() {
	done := make(chan struct{})
	d.done = done
	ended := d.cli.ContainerWait(context.Background(), d.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	d.wait.Go(func() {
		defer close(done)
		select {
		case <-ended.Result:
		case <-ended.Error: //nolint:errcheck // an engine that can't say has no container for us either
		}
	})
}

func (d *dockerServer) addr() string            { return d.address }
func (d *dockerServer) exited() <-chan struct{} { return d.done }

func (d *dockerServer) start() error {
	err := d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerStart(ctx, d.id, client.ContainerStartOptions{})
		return err
	})
	if err == nil {
		d.watch()
	}
	return err
}

func (d *dockerServer) stop() error {
	return d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerStop(ctx, d.id, client.ContainerStopOptions{})
		return err
	})
}

func (d *dockerServer) kill() error {
	err := d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerKill(ctx, d.id, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
	if err == nil {
		<-d.done
	}
	return err
}

func (d *dockerServer) pause() error {
	return d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerPause(ctx, d.id, client.ContainerPauseOptions{})
		return err
	})
}

func (d *dockerServer) resume() error {
	return d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerUnpause(ctx, d.id, client.ContainerUnpauseOptions{})
		return err
	})
}

func (d *dockerServer) close() error {
	err := d.call(func(ctx context.Context) error {
		_, err := d.cli.ContainerRemove(ctx, d.id, removeAll)
		return err
	})
	if err == nil {
		d.wait.Wait()
	}
	return err
}

func (d *dockerServer) log() string {
	ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
	defer cancel()
	logs, err := d.cli.ContainerLogs(ctx, d.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = logs.Close() }() // read to its end
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, logs); err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return text.String()
}

func (d *dockerServer) call(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), dockerCall)
	defer cancel()
	return f(ctx)
}
