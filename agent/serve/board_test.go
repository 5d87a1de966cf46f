package serve

import (
	"errors"
	"sync/atomic"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"pgregory.net/rapid"
)

const (
	chat  = "llm/Deployment/chat"
	batch = "llm/Deployment/batch"
)

// scene is a board with a clock and a cluster that tests move.
type scene struct {
	*Board
	now      atomic.Int64
	frozen   atomic.Bool
	observed map[string]int32
}

func newScene() *scene {
	s := &scene{observed: map[string]int32{}}
	s.now.Store(1_000_000)
	s.Board = NewBoard(Env{NowMS: s.now.Load, Observed: func() map[string]int32 { return s.observed }, Frozen: s.frozen.Load})
	return s
}

func (s *scene) standing(generation uint64, seconds int64, targets ...*agentv1.Target) *agentv1.Standing {
	return &agentv1.Standing{AtMs: s.now.Load(), ValidUntilMs: s.now.Load() + seconds*1000, Generation: generation, Targets: targets}
}

func to(workload string, n int32) *agentv1.Target {
	return &agentv1.Target{Workload: workload, Replicas: n}
}

func (s *scene) want(t *testing.T, workload string, n int32, wantErr error) {
	t.Helper()
	if got, _, err := s.Target(workload); !errors.Is(err, wantErr) || (err == nil && got != n) {
		t.Errorf("%s: %d, %v; want %d, %v", workload, got, err, n, wantErr)
	}
}

func TestATargetComesFromAPlanAndIsHeldByTheService(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.want(t, chat, 0, ErrUnknown)
	if err := s.Publish(chat, 6); err != nil {
		t.Fatal(err)
	}
	s.want(t, chat, 6, nil)
	s.now.Add(publishedFor.Milliseconds() - 1)
	s.want(t, chat, 6, nil)
	if err := s.Put(s.standing(1, 300, to(chat, 6))); err != nil {
		t.Fatal(err)
	}
	s.now.Add(299_999)
	s.want(t, chat, 6, nil)
	s.now.Add(1)
	s.want(t, chat, 0, ErrStale)
}

func TestAStandingChangesNoCountOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newScene()
	if err := s.Publish(chat, 6); err != nil {
		t.Fatal(err)
	}
	s.observed[batch] = 3
	if err := s.Put(s.standing(1, 300, to(chat, 60), to(batch, 3), to("llm/Deployment/new", 9))); err != nil {
		t.Fatal(err)
	}
	s.want(t, chat, 6, nil)
	s.want(t, batch, 3, nil)
	s.want(t, "llm/Deployment/new", 0, ErrUnknown)
	if got := s.Counts().Ignored; got != 2 {
		t.Errorf("%d confirmations ignored, want 2", got)
	}
	s.now.Add(publishedFor.Milliseconds())
	s.want(t, chat, 0, ErrStale) // 60 was never confirmed as 6
}

func TestAStandingThatIsOldOrOverOrTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.observed[chat] = 4
	if err := s.Put(s.standing(7, 300, to(chat, 4))); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]*agentv1.Standing{
		"an older plan": s.standing(6, 300, to(chat, 4)),
		"over":          s.standing(8, 0, to(chat, 4)),
		"too many":      s.standing(8, 300, make([]*agentv1.Target, maxTargets+1)...),
	} {
		if err := s.Put(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := s.Put(s.standing(9, 1<<40, to(chat, 4))); err != nil {
		t.Fatal(err)
	}
	s.now.Add(maxValid.Milliseconds())
	s.want(t, chat, 0, ErrStale)
}

func TestWhileFrozenTheCountStaysWhateverTheServiceSays(t *testing.T) {
	t.Parallel()
	s := newScene()
	if err := s.Publish(chat, 6); err != nil {
		t.Fatal(err)
	}
	s.frozen.Store(true)
	s.now.Add(publishedFor.Milliseconds() - 1)
	if err := s.Put(s.standing(2, 300, to(chat, 2))); err != nil {
		t.Fatal(err)
	}
	s.now.Add(200_000)
	s.want(t, chat, 6, nil)
}

func TestAfterARestartTheCountsThatWereSetComeBack(t *testing.T) {
	t.Parallel()
	s := newScene()
	if err := s.Publish(batch, 2); err != nil {
		t.Fatal(err)
	}
	s.Restore(map[string]int32{chat: 5, batch: 9})
	s.want(t, chat, 5, nil)
	s.want(t, batch, 2, nil)
}

func TestAChangeWakesWhoWaits(t *testing.T) {
	t.Parallel()
	s := newScene()
	_, changed, _ := s.Target(chat)
	if err := s.Publish(chat, 6); err != nil {
		t.Fatal(err)
	}
	<-changed
	_, changed, _ = s.Target(chat)
	if err := s.Publish(chat, 6); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("the same count again is no change")
	default:
	}
}

// Whatever the service says and in whatever order, a count that is served is one that a plan set or that the cluster had.
func TestPropertyNoStandingMovesAWorkload(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newScene()
		s.observed[chat] = rapid.Int32Range(0, 5).Draw(t, "observed")
		allowed := map[int32]bool{s.observed[chat]: true}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			n := rapid.Int32Range(-2, 9).Draw(t, "n")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if n >= 0 && s.Publish(chat, n) == nil {
					allowed[n] = true
				}
			case 1:
				s.now.Add(int64(n+2) * 60_000)
			default:
				_ = s.Put(s.standing(uint64(rapid.IntRange(0, 3).Draw(t, "generation")), 60, to(chat, n)))
			}
			if got, _, err := s.Target(chat); err == nil && !allowed[got] {
				t.Fatalf("%d is served; plans and the cluster said %v", got, allowed)
			}
		}
	})
}
