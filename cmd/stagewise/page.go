package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

func newPage() *cobra.Command {
	var (
		from   configFlags
		show   displayFlags
		listen string
	)
	cmd := &cobra.Command{
		Use: "page -c FILE", Short: "Show a pipeline to a browser on this machine: what it does, how well, and what needs you", Args: cobra.NoArgs,
		Long: "Show a pipeline to a browser on this machine until stopped. The page only reads topics, so it may run beside any number of other processes on\n" +
			"Kafka. The embedded broker has room for one process: there, train --page and run --page show what they do.",
		Example: "  stagewise page -c clicks.yaml\n" +
			"  stagewise page -c clicks.yaml --listen 127.0.0.1:8475\n" +
			"  stagewise train -c digits.yaml --page 127.0.0.1:0",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.load()
			if err != nil {
				return err
			}
			if err := errors.Join(show.check(), checkPage("--listen", listen)); err != nil {
				return err
			}
			recorder, finish := show.recorder(c.Name, cmd.ErrOrStderr())
			defer finish()
			err = withLog(cmd.Context(), c, recorder, func(log *kafkalog.Log) error {
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
			return failed(err)
		},
	}
	from.add(cmd)
	show.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "show it at this `host:port` of the loopback interface; port 0 is a free one")
	return cmd
}

// addPage defines the flag --page of a command that also shows what it does.
func addPage(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "page", "", "show what goes on to a browser, at this `host:port` of the loopback interface; 127.0.0.1:0 is a free port")
}

// checkPage returns an error if a page can't be at the address that a flag has; empty: there is none.
func checkPage(flag, address string) error {
	if address == "" && flag == "--page" {
		return nil
	}
	if err := page.CheckListen(address); err != nil {
		if p, ok := errors.AsType[schemas.Problem](err); ok {
			p.Key = flag
			return p
		}
		return err
	}
	return nil
}

// showPage shows a pipeline at an address, which a flag has, until ctx ends or stop is called; an empty address: it shows nothing. stop returns when
// nothing is read any more.
func showPage(ctx context.Context, log *kafkalog.Log, c *config.Config, flag, address string, recorder event.Recorder) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, schemas.Problem{Key: flag, Value: address, Want: fmt.Sprintf("host:port on which this process can listen (%v)", err)}
	}
	ctx, cancel := context.WithCancel(ctx)
	board, read, served := page.NewBoard(), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(read)
		page.Read(ctx, log, page.Options{Name: c.Name, Examples: c.Examples.Topic, Brokers: brokers(c)}, board)
	}()
	go func() { served <- page.NewServer(board).Serve(ctx, listener) }()
	recorder.Record(event.Shown{URL: fmt.Sprintf("http://%s/", listener.Addr())})
	return func() error {
		cancel()
		<-read
		return <-served
	}, nil
}
