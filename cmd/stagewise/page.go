package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/event"
)

func newPage() *cobra.Command {
	var show displayFlags
	listen := "127.0.0.1:0"
	cmd := new(configFlags).command(&cobra.Command{
		Use: "page -c FILE", Args: cobra.NoArgs,
	}, &show, func(cmd *cobra.Command, _ []string, c *config.Config) error {
		err := show.session(cmd, c, session{with: withLog}, func(log *kafkalog.Log, recorder event.Recorder, _ func()) error {
			stop, err := showPage(cmd.Context(), log, c, "--listen", listen, recorder)
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			return stop()
		})
		if cmd.Context().Err() != nil {
			return nil
		}
		return err
	})
	listenAt(cmd, &listen, "listen", "serve the page at this `host:port` of the loopback interface; port 0: any free port")
	return cmd
}

// addPage defines the flag --page of a command that also shows what it does.
func addPage(cmd *cobra.Command, address *string) {
	listenAt(cmd, address, "page", "serve a live page at this `host:port` of the loopback interface; port 0: any free port")
}

// showPage shows a pipeline at an address, which a flag has, until ctx ends or stop is called; an empty address: it
// shows nothing. stop returns when nothing is read any more.
func showPage(ctx context.Context, log *kafkalog.Log, c *config.Config, flag, address string,
	recorder event.Recorder) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, option.Problem{Key: flag, Value: address, Want: fmt.Sprintf("host:port that this process can listen on (%v)", err)}
	}
	ctx, cancel := context.WithCancel(ctx)
	board, read, served := page.NewBoard(), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(read)
		page.Read(ctx, log, page.Options{Name: c.Name, Examples: c.Examples.Topic, Source: c.Examples.FromTopic,
			Brokers: screen.Brokers(c), Values: c.Logs.Values}, board)
	}()
	go func() { served <- page.NewServer(board).Serve(ctx, listener) }()
	recorder.Record(event.PageServed{URL: fmt.Sprintf("http://%s/", listener.Addr())})
	return func() error {
		cancel()
		<-read
		return <-served
	}, nil
}
