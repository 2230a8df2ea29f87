package serve

import "github.com/prometheus/client_golang/prometheus"

// metrics are the Prometheus metrics of a server.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	rows     prometheus.Counter
	missing  prometheus.Counter
	panics   prometheus.Counter
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "stagewise", Name: name, Help: help})
}

func newMetrics(s *Server) *metrics {
	versions, register := s.versions, s.register
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "stagewise", Name: "requests_total",
			Help: "Requests, by path and status."}, []string{"path", "code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "stagewise", Name: "predict_seconds", Help: "Seconds from the headers of a prediction request to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
		rows:    counter("predicted_rows_total", "Predicted rows."),
		missing: counter("missing_columns_total", "Columns of the model that predicted rows lacked, counted for each row."),
		panics:  counter("request_panics_total", "Requests that failed because of a bug in the server, which logs them."),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "stagewise", Name: name, Help: help}, value)
	}
	register.MustRegister(m.requests, m.seconds, m.rows, m.missing, m.panics,
		gauge("serving_version", "Number of the serving version; 0: none.",
			func() float64 { return float64(versions.Status().Version) }),
		gauge("serving_version_age_seconds", "Age of the serving version in seconds; 0: unknown.",
			func() float64 { return versions.Status().Age.Seconds() }),
		gauge("serving_stale", "1 while the version is missing, too old, or not confirmed by brokers.", func() float64 {
			if versions.Stale() != nil {
				return 1
			}
			return 0
		}),
		gauge("credentials_unreadable", "1 while the certificate or token files are unusable: the server "+
			"keeps their last usable contents.", func() float64 {
			if s.tls != nil && s.tls.trouble() != nil || s.token != nil && s.token.trouble() != nil {
				return 1
			}
			return 0
		}))
	if s.tls != nil {
		register.MustRegister(gauge("certificate_expiry_timestamp_seconds", "Expiry of the server's certificate, in seconds since 1970.",
			func() float64 {
				return float64(s.tls.get().Leaf.NotAfter.Unix())
			}))
	}
	return m
}
