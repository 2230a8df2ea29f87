package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/event"
)

func newPage() *cobra.Command {
	at := pageFlag{name: "listen", address: "127.0.0.1:0"}
	cmd := new(configFlags).command("page -c FILE", cobra.NoArgs, &displayFlags{}, func(c *call) error {
		return c.session(session{with: withLog, page: at, untilSignal: true}, func() error {
			<-c.Context().Done()
			return nil
		})
	})
	at.add(cmd, "serve the page")
	return cmd
}

// pageFlag is the flag of a command with the address of the page; an empty address means no page.
type pageFlag struct{ name, address string }

// add defines the flag.
func (f *pageFlag) add(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(checked{&f.address, page.CheckListen}, f.name,
		usage+" at this `host:port` of the loopback interface; port 0: any free port")
}

// show serves the page of a pipeline at the address until stop is called, which returns when reading has ended. It
// ignores errors while serving, so that the page can't end the command.
func (f pageFlag) show(c *call) (stop func(), err error) {
	if f.address == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		return nil, option.Problem{Key: "--" + f.name, Value: f.address, Want: fmt.Sprintf("host:port that this process can listen on (%v)", err)}
	}
	ctx, cancel := context.WithCancel(c.Context())
	board := page.NewBoard()
	var shown sync.WaitGroup
	shown.Go(func() {
		page.Read(ctx, c.log, page.Options{Name: c.config.Name, Examples: c.config.Examples.Topic, Source: c.config.Examples.FromTopic,
			Brokers: screen.Brokers(c.config), Values: c.config.Logs.Values}, board)
	})
	shown.Go(func() { _ = page.NewServer(board).Serve(ctx, listener) })
	c.recorder.Record(event.PageServed{URL: fmt.Sprintf("http://%s/", listener.Addr())})
	return func() {
		cancel()
		shown.Wait()
	}, nil
}
