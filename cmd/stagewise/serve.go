package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/serve"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	from                       configFlags
	show                       displayFlags
	listen, version, modelFile string
}

func newServe() *cobra.Command {
	f := serveFlags{show: displayFlags{log: logText}}
	cmd := &cobra.Command{
		Use: "serve (-c FILE | --model FILE)", Short: "Answer HTTP requests with predictions, by the newest version of a pipeline or by a model file", Args: cobra.NoArgs,
		Long: "Answer HTTP requests with predictions until stopped. POST /predict takes rows as JSON, {\"rows\": [[…]]}, or as a stream of Arrow. Without --model\n" +
			"the newest version of the pipeline answers that is offered, and a version that comes replaces it between two requests. GET /openapi.json\n" +
			"describes all that is answered.",
		Example: "  stagewise serve -c digits.yaml\n" +
			"  stagewise serve -c digits.yaml --version 7 --listen 127.0.0.1:9000\n" +
			"  stagewise serve --model digits.model\n" +
			"  curl -H 'Content-Type: application/json' -d '{\"rows\": [[5.1, 3.5, 1.4, 0.2]]}' localhost:8474/predict",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.from.add(cmd)
	delete(cmd.Flags().Lookup("config").Annotations, cobra.BashCompOneRequiredFlag) // --model may take its place
	f.show.add(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "", "answer at this `host:port` (default "+serve.Defaults().Listen+")")
	cmd.Flags().StringVar(&f.version, "version", "", "answer by this `version` only: its number, or the id of its run (default "+run.Latest+")")
	cmd.Flags().StringVar(&f.modelFile, "model", "", "answer by the model in a `file`, and connect to no broker")
	return cmd
}

// load returns the configuration. Without a file it has the defaults.
func (f *serveFlags) load() (*config.Config, error) {
	switch {
	case f.from.file == "" && f.modelFile == "":
		return nil, errors.New("expected -c FILE, or --model FILE")
	case f.modelFile != "" && f.version != "":
		return nil, schemas.Problem{Key: "--version", Value: f.version, Want: "no value, as --model has the version"}
	case f.from.file == "" && len(f.from.set) > 0:
		return nil, errors.New("--set: expected -c FILE too, whose keys it overrides")
	case f.from.file != "":
		if f.listen != "" {
			f.from.set = append(f.from.set, "serve.listen="+f.listen)
		}
		return f.from.load()
	}
	c := config.Defaults()
	if f.listen != "" {
		c.Serve.Listen = f.listen
	}
	if problems := c.Serve.Check(); len(problems) > 0 {
		problems[0].Key = "--" + problems[0].Key
		return nil, problems[0]
	}
	return c, nil
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	c, err := f.load()
	if err != nil {
		return err
	}
	if err := f.show.check(); err != nil {
		return err
	}
	if _, err := openBLAS(); err != nil { // each of those who predict opens it for itself
		return err
	}
	recorder, finish := f.show.recorder(c.Name, cmd.ErrOrStderr())
	defer finish()
	if f.modelFile != "" {
		m, err := readModel(f.modelFile)
		if err != nil {
			return failed(err)
		}
		return failed(answer(cmd.Context(), c.Serve, serve.Fixed(m), m.Manifest.Name, recorder))
	}
	err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
		follower, err := client.FollowOn(cmd.Context(), log, client.Options{
			Name: c.Name, Version: f.version, MaxAge: c.Serve.MaxAge, MaxSilence: c.Serve.MaxSilence,
		})
		if err != nil {
			return err
		}
		told := make(chan struct{})
		go func() {
			defer close(told)
			tellVersions(cmd.Context(), follower, recorder)
		}()
		err = answer(cmd.Context(), c.Serve, follower, c.Name, recorder)
		if err == nil {
			<-told // it ends with the context, as answer does
		}
		return errors.Join(err, follower.Close())
	})
	if cmd.Context().Err() != nil {
		return nil
	}
	return failed(err)
}

// answer answers requests until ctx ends.
func answer(ctx context.Context, o serve.Options, versions serve.Versions, pipeline string, recorder event.Recorder) error {
	registry, _ := newRegistry(pipeline)
	server, err := serve.New(o, versions, registry, pipeline)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return schemas.Problem{Key: "serve.listen", Value: o.Listen, Want: fmt.Sprintf("host:port on which this process can listen (%v)", err)}
	}
	scheme := "http"
	if o.Certificate != "" {
		scheme = "https"
	}
	recorder.Record(event.Answering{URL: fmt.Sprintf("%s://%s/predict", scheme, listener.Addr())})
	return server.Serve(ctx, listener)
}

// tellVersions says which version answers, whenever that changes, until ctx ends.
func tellVersions(ctx context.Context, follower *client.Follower, recorder event.Recorder) {
	for {
		changed := follower.Changed()
		answers := event.Answers{}
		if m := follower.Model(); m != nil {
			answers.Version = m.Manifest.Version
		}
		recorder.Record(answers)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
