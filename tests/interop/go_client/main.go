// A stock RocketMQ client for Go in the roles the interop run needs.
//
// Like InteropClient.java it decides nothing: it sends, receives, and writes down what the library
// told it, in the same lines, so that one judge (ledger.py) reads both. Arguments are key=value pairs.
//
//	mode=produce namesrv=H:P topic=T (count=N | untilInputEnds=true) rate=PER_SECOND ledger=FILE
//	             [threads=K] [first=SEQUENCE]
//	mode=consume namesrv=H:P topic=T group=G received=FILE
//	mode=features …, see features.go
//
// Ledger line:   sequence,attempt,startMs,endMs,outcome,queueId,queueOffset
// Received line: sequence,queueId,queueOffset,atMs, as an orderly listener gets them: each queue in turn
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	rocketmqErrors "github.com/apache/rocketmq-client-go/v2/errors"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	giveUpAfter   = 120 * time.Second
	retryPause    = 10 * time.Millisecond
	startAttempts = 3
	bodyBytes     = 1024
)

type options map[string]string

func main() {
	given := options{}
	for _, word := range os.Args[1:] {
		key, value, found := strings.Cut(word, "=")
		if !found {
			fail(2, "not key=value: %s", word)
		}
		given[key] = value
	}
	switch given["mode"] {
	case "produce":
		produce(given)
	case "consume":
		consume(given)
	case "features":
		features(given)
	default:
		fail(2, "mode=produce, mode=consume or mode=features is needed")
	}
}

func produce(given options) {
	sender, err := rocketmq.NewProducer(
		producer.WithGroupName("interop-producer"),
		producer.WithNameServer(primitive.NamesrvAddr{given["namesrv"]}),
	)
	if err == nil {
		err = sender.Start()
	}
	if err != nil {
		fail(1, "the producer does not start: %v", err)
	}
	threads := given.number("threads", 4)
	rate := given.number("rate", 200)
	fmt.Printf("settings client=%s threads=%d rate=%d, all else as it comes\n", version(), threads, rate)
	ledger := newLines(given["ledger"])
	body := make([]byte, bodyBytes)
	rand.New(rand.NewSource(1)).Read(body)

	var next, givenUp, end atomic.Int64
	first := int64(given.number("first", 0))
	next.Store(first + 1)
	end.Store(first + int64(given.number("count", math.MaxInt32)))
	// Of several first sends at once the library answers some that there is no route, whatever stands there.
	if !sendUntilStored(sender, given["topic"], first, body, ledger) {
		fail(1, "the first message was not stored")
	}
	began := time.Now()
	var workers sync.WaitGroup
	for i := 0; i < threads; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for sequence := next.Add(1) - 1; sequence < end.Load(); sequence = next.Add(1) - 1 {
				due := time.Duration(sequence-first) * time.Second / time.Duration(rate)
				time.Sleep(time.Until(began.Add(due)))
				if !sendUntilStored(sender, given["topic"], sequence, body, ledger) {
					givenUp.Add(1)
				}
			}
		}()
	}
	if given["untilInputEnds"] == "true" {
		untilInputEnds()
		end.Store(0)
	}
	workers.Wait()
	fmt.Printf("done next=%d givenUp=%d\n", next.Load(), givenUp.Load())
	sender.Shutdown()
	if givenUp.Load() > 0 {
		os.Exit(1)
	}
}

func sendUntilStored(sender rocketmq.Producer, topic string, sequence int64, body []byte, ledger *lines) bool {
	key := strconv.FormatInt(sequence, 10)
	for attempt, begun := 1, time.Now(); time.Since(begun) < giveUpAfter; attempt++ {
		message := primitive.NewMessage(topic, body).WithTag("interop").WithKeys([]string{key})
		start := time.Now()
		outcome, queue, offset := "SEND_OK", -1, int64(-1)
		result, err := sender.SendSync(context.Background(), message)
		switch {
		case err != nil:
			outcome = kind(err)
		case result.Status != primitive.SendOK:
			outcome = fmt.Sprintf("status%d", result.Status)
		default:
			queue, offset = result.MessageQueue.QueueId, result.QueueOffset
		}
		ledger.write("%d,%d,%d,%d,%s,%d,%d", sequence, attempt, start.UnixMilli(), time.Now().UnixMilli(), outcome, queue, offset)
		if err == nil && result.Status == primitive.SendOK {
			return true
		}
		time.Sleep(retryPause)
	}
	return false
}

var code = regexp.MustCompile(`^CODE: (\d+)`)

// What went wrong: a word or the broker's code, and what it says.
func kind(err error) string {
	if errors.Is(err, rocketmqErrors.ErrRequestTimeout) {
		return "timeout"
	}
	if found := code.FindStringSubmatch(err.Error()); found != nil {
		return "code" + found[1] + " " + line(err.Error()[len(found[0]):])
	}
	if strings.Contains(err.Error(), "route info not found") {
		return "noRoute"
	}
	return line(err.Error())
}

// Without a comma, on one line.
func line(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == ',' || r == '\n' {
			return ' '
		}
		return r
	}, text))
}

func consume(given options) {
	received := newLines(given["received"])
	var total atomic.Int64
	var started rocketmq.PushConsumer
	for attempt := 1; started == nil; attempt++ {
		tried, err := startConsumer(given, received, &total)
		if err == nil {
			started = tried
		} else if attempt == startAttempts {
			fail(1, "the consumer does not start: %v", err)
		} else {
			fmt.Printf("start failed, attempt %d: %v\n", attempt, err)
		}
	}
	fmt.Printf("settings client=%s orderly, from the first offset, all else as it comes\n", version())
	untilInputEnds()
	started.Shutdown()
	fmt.Printf("done received=%d\n", total.Load())
}

func startConsumer(given options, received *lines, total *atomic.Int64) (rocketmq.PushConsumer, error) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithGroupName(given["group"]),
		consumer.WithNameServer(primitive.NamesrvAddr{given["namesrv"]}),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(true),
	)
	if err != nil {
		return nil, err
	}
	write := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			received.write("%s,%d,%d,%d", message.GetKeys(), message.Queue.QueueId, message.QueueOffset, time.Now().UnixMilli())
			total.Add(1)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err = made.Subscribe(given["topic"], consumer.MessageSelector{}, write); err == nil {
		err = made.Start()
	}
	if err != nil {
		made.Shutdown()
		return nil, err
	}
	return made, nil
}

// The run closes standard input when it has seen enough.
func untilInputEnds() {
	io.Copy(io.Discard, os.Stdin)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, one := range info.Deps {
			if strings.HasSuffix(one.Path, "rocketmq-client-go/v2") {
				return "rocketmq-client-go-" + one.Version
			}
		}
	}
	return "rocketmq-client-go"
}

func (given options) number(key string, otherwise int) int {
	said, there := given[key]
	if !there {
		return otherwise
	}
	value, err := strconv.ParseFloat(said, 64)
	if err != nil {
		fail(2, "%s=%s is no number", key, said)
	}
	return int(value)
}

// A file of lines, each there as a whole for who reads along.
type lines struct {
	lock sync.Mutex
	file *bufio.Writer
}

func newLines(path string) *lines {
	file, err := os.Create(path)
	if err != nil {
		fail(1, "cannot write %s: %v", path, err)
	}
	return &lines{file: bufio.NewWriter(file)}
}

func (l *lines) write(format string, values ...any) {
	l.lock.Lock()
	defer l.lock.Unlock()
	fmt.Fprintf(l.file, format+"\n", values...)
	if err := l.file.Flush(); err != nil {
		fail(1, "cannot write: %v", err)
	}
}

func fail(exitCode int, format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(exitCode)
}
