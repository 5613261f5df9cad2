// Takes turns with another process by the mutex of etcd's own client for Go.
//
// Arguments: the address of etcd and the number of the process. Each line of the input is `turns hold_us think_us`, and
// is answered with a list of the turns: when each began and ended, in ns of CLOCK_MONOTONIC.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"golang.org/x/sys/unix"
)

// Nanoseconds of CLOCK_MONOTONIC, which all processes share.
func now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

func run() error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	if err != nil {
		return err
	}
	defer session.Close()
	lock := concurrency.NewMutex(session, "mutex/turn")
	always := context.Background()
	fmt.Println("READY")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var turns, hold, think int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d %d", &turns, &hold, &think); err != nil {
			return fmt.Errorf("`%s` is not `turns hold_us think_us`", lines.Text())
		}
		taken := make([][2]int64, 0, turns)
		for i := 0; i < turns; i++ {
			if err := lock.Lock(always); err != nil {
				return err
			}
			begun := now()
			time.Sleep(time.Duration(hold) * time.Microsecond)
			ended := now()
			if err := lock.Unlock(always); err != nil {
				return err
			}
			taken = append(taken, [2]int64{begun, ended})
			time.Sleep(time.Duration(think) * time.Microsecond)
		}
		answer, err := json.Marshal(taken)
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
	return lines.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
