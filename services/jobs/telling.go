package jobs

import (
	"github.com/riverqueue/river"
)

// addTelling adds the workers that watch, tell and sum up.
func addTelling(workers *river.Workers, cfg Config, deps Deps) {
	river.AddWorker(workers, &Announce{DB: deps.DB, PublicURL: cfg.PublicURL, Log: deps.Log})
	river.AddWorker(workers, &FindAnomalies{DB: deps.DB, Currency: deps.Prices().Currency(), Log: deps.Log})
	river.AddWorker(workers, &Watch{DB: deps.DB, Log: deps.Log})
	river.AddWorker(workers, &Digests{DB: deps.DB, Currency: deps.Prices().Currency(), PublicURL: cfg.PublicURL, Log: deps.Log})
}

// tellingJobs are when they run.
func tellingJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{
		river.NewPeriodicJob(river.PeriodicInterval(announceEvery), func() (river.JobArgs, *river.InsertOpts) { return AnnounceArgs{}, nil },
			&river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(anomaliesEvery), func() (river.JobArgs, *river.InsertOpts) { return AnomaliesArgs{}, nil },
			&river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(watchEvery), func() (river.JobArgs, *river.InsertOpts) { return WatchArgs{}, nil },
			&river.PeriodicJobOpts{RunOnStart: true}),
		river.NewPeriodicJob(river.PeriodicInterval(digestsEvery), func() (river.JobArgs, *river.InsertOpts) { return DigestsArgs{}, nil },
			&river.PeriodicJobOpts{RunOnStart: true}),
	}
}
