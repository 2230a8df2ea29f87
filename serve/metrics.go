package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the Prometheus metrics of a server.
type metrics struct {
	requests              *prometheus.CounterVec
	seconds               prometheus.Histogram
	rows, missing, panics prometheus.Counter
}

func counter(register promauto.Factory, name, help string) prometheus.Counter {
	return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func newMetrics(s *Server) *metrics {
	gauge := func(name, help string, value func() float64) {
		s.register.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	truth := func(is bool) float64 { return map[bool]float64{true: 1}[is] }
	gauge("serving_version", "Number of the serving version; 0: none.", func() float64 { return float64(s.versions.Status().Version) })
	gauge("serving_version_age_seconds", "Age of the serving version in seconds; 0: unknown.",
		func() float64 { return s.versions.Status().Age.Seconds() })
	gauge("serving_stale", "1 while the version is missing, too old, or not confirmed by brokers.",
		func() float64 { return truth(s.versions.Stale() != nil) })
	gauge("credentials_unreadable", "1 while the certificate or token files are unusable: the server keeps their last usable contents.",
		func() float64 {
			_, wrong := s.tls.get()
			_, wrongToken := s.token.get()
			return truth(wrong != nil || wrongToken != nil)
		})
	if s.tls != nil {
		gauge("certificate_expiry_timestamp_seconds", "Expiry of the server's certificate, in seconds since 1970.",
			func() float64 {
				certificate, _ := s.tls.get()
				return float64(certificate.Leaf.NotAfter.Unix())
			})
	}
	return &metrics{
		requests: s.register.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Requests, by path and status."},
			[]string{"path", "code"}),
		seconds: s.register.NewHistogram(prometheus.HistogramOpts{Name: "predict_seconds",
			Help: "Seconds from the headers of a prediction request to its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}),
		rows:    counter(s.register, "predicted_rows_total", "Predicted rows."),
		missing: counter(s.register, "missing_columns_total", "Columns of the model that predicted rows lacked, counted for each row."),
		panics:  counter(s.register, "request_panics_total", "Requests that failed because of a bug in the server, which logs them."),
	}
}
