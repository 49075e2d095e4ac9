package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/idem-go/idem/backend"
)

const (
	// defaultMinLease is one and a half times the default election timeout, in whole
	// seconds.
	defaultMinLease = 2 * time.Second

	// leaseStretch holds for leases of up to 30 s and one change of leader, which
	// begins every lease anew. Without one they end within a second or two.
	leaseStretch = time.Minute
)

// Describe implements [backend.Backend]. It asks all endpoints of the client, and
// makes an etcd lease of a second to see how long it really is. It reports alarms, a
// space quota that is nearly used up, a cluster without leader, a single member,
// endpoints that don't answer and servers with bugs that end leases early. Rights that
// are missing for the questions (cluster and alarms) are reported, too.
func (b *Backend) Describe(ctx context.Context) (backend.Description, error) {
	const op = "etcd: describe"
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return backend.Description{}, err
	}
	defer cancel()
	d := backend.Description{
		Name: "etcd",
		Capabilities: backend.Capabilities{
			DurableKill:   true,
			Shared:        true,
			NativeExpiry:  true,
			Clock:         backend.ClockServer,
			FreshReads:    true,
			MaxValue:      b.cfg.maxValue,
			MinLease:      defaultMinLease,
			LeaseRound:    time.Second,
			LeaseStretch:  leaseStretch,
			TokensBreakOn: []string{"restore"},
		},
	}
	led, err := b.members(ctx, op, &d)
	if err != nil || !led {
		return d, err
	}
	b.cluster(ctx, &d)
	if l, err := b.grant(ctx, op, time.Second); err == nil {
		d.Capabilities.MinLease = l.ttl
		_, _ = b.client.Revoke(ctx, l.id) // it ends by itself, too
	}
	found(&d, d.Capabilities.MinLease > 5*time.Second, "min-lease", backend.Warning,
		fmt.Sprintf("no lease is shorter than %v, and so long a crashed run keeps its key", d.Capabilities.MinLease),
		"lower --election-timeout")
	return d, nil
}

func found(d *backend.Description, when bool, id string, severity backend.Severity, text, advice string) {
	if when {
		d.Findings = append(d.Findings, backend.Finding{ID: "etcd/" + id, Severity: severity, Text: text, Advice: advice})
	}
}

// members asks each endpoint for its own state, and reports whether any knows a
// leader.
func (b *Backend) members(ctx context.Context, op string, d *backend.Description) (led bool, err error) {
	endpoints := b.client.Endpoints()
	silent := 0
	for _, e := range endpoints {
		one, cancel := context.WithTimeout(ctx, b.cfg.timeout/time.Duration(len(endpoints)+1))
		s, failure := b.client.Status(one, e)
		cancel()
		if failure != nil {
			silent++
			err = readError(ctx, op, failure)
			continue
		}
		led = led || s.Leader != 0
		if d.Server == "" || older(s.Version, d.Server) {
			d.Server = s.Version
		}
		found(d, s.DbSizeQuota > 0 && s.DbSize > s.DbSizeQuota*8/10, "quota", backend.Warning,
			fmt.Sprintf("a member uses %d of the %d bytes of its space quota; at its end claims and completions are refused", s.DbSize, s.DbSizeQuota),
			"compact and defragment, or raise --quota-backend-bytes; set --auto-compaction-retention")
	}
	if silent == len(endpoints) {
		return false, err
	}
	found(d, silent > 0, "endpoints", backend.Warning,
		fmt.Sprintf("%d of %d endpoints don't answer", silent, len(endpoints)), "start the members, or remove their endpoints")
	found(d, !led, "quorum", backend.Unsafe,
		"the members have no leader: nothing can be read or written", "start enough members for a majority")
	found(d, earlyLeases(d.Server), "version", backend.Unsafe,
		"servers of this version can end leases early after a change of leader: completed records may be lost",
		"upgrade to 3.4.31, 3.5.13 or later")
	return led, nil
}

// cluster asks for what all members agree on.
func (b *Backend) cluster(ctx context.Context, d *backend.Description) {
	list, err := b.client.MemberList(ctx)
	if err == nil {
		voters := 0
		for _, m := range list.Members {
			if !m.IsLearner {
				voters++
			}
		}
		d.Capabilities.DurableFailover = voters >= 3
		found(d, voters < 3, "members", backend.Warning,
			fmt.Sprintf("the cluster has %d voting members: it does not survive the loss of one", voters), "run three or five")
	}
	alarms, alarmErr := b.client.AlarmList(ctx)
	if alarmErr == nil {
		for _, a := range alarms.Alarms {
			found(d, a.Alarm == etcdserverpb.AlarmType_NOSPACE, "nospace", backend.Unsafe,
				"the alarm NOSPACE is raised: claims and completions are refused, replays are answered", noSpaceHint)
			found(d, a.Alarm == etcdserverpb.AlarmType_CORRUPT, "corrupt", backend.Unsafe,
				"the alarm CORRUPT is raised: the members' data differ, and everything is refused", "restore the damaged member")
		}
	}
	found(d, err != nil || alarmErr != nil, "rights", backend.Warning,
		"members or alarms of the cluster could not be read", "ask with a user that may, or look with etcdctl")
}

// older compares versions like "3.5.13". What can't be read is older than anything.
func older(a, b string) bool {
	x, y := version(a), version(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

func version(s string) (v [3]int) {
	_, _ = fmt.Sscanf(s, "%d.%d.%d", &v[0], &v[1], &v[2]) // a suffix doesn't matter
	return v
}

// earlyLeases reports whether a version may revoke leases that are alive, etcd issues
// 12528 and 15247.
func earlyLeases(v string) bool {
	return older(v, "3.4.31") || !older(v, "3.5.0") && older(v, "3.5.13")
}
