package main

// What an application written in Go uses besides plain sends: each feature has a topic of its own and is
// sent in two halves, a line on standard input between them (the run kills the master there). This program
// decides nothing; it prints what was answered and what came, and one judge (go_features.py) reads it.
//
//	mode=features namesrv=H:P broker=H:P count=N_PER_FEATURE
//
//	sent FEATURE NUMBER AT_MS       answered with success
//	got CONSUMER NUMBER AT_MS MORE  handed to the listener; MORE: how often it came before, or a word
//	asked NUMBER                    the broker asks what became of a transaction
//	replied NUMBER                  a request has its reply
//	failed WHERE TEXT
//	waits                           the first half is sent, the consumers are started
//	done                            the second half is sent

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	delayLevel    = 2 // 5 s
	timerMs       = 4000
	orderlyKeys   = 4
	compressedOf  = 10 // every tenth plain message has a body that the client compresses
	largeBytes    = 20_000
	batchOf       = 4
	requestWithin = 5 * time.Second
	asyncWithin   = 10 * time.Second
)

var printing sync.Mutex

func say(format string, values ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(format+"\n", values...)
}

func features(given options) {
	use := &application{namesrv: given["namesrv"], count: given.number("count", 40)}
	use.startProducers()
	use.administer(given["broker"])
	use.sendAll(0, use.count/2)
	use.startConsumers()
	say("waits")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fail(1, "nobody says when to go on: %v", err)
	}
	use.sendAll(use.count/2, use.count)
	say("done")
	untilInputEnds()
	use.end()
}

type application struct {
	namesrv      string
	count        int
	plain        rocketmq.Producer
	byKey        rocketmq.Producer
	asker        rocketmq.Producer
	replier      rocketmq.Producer
	transactions rocketmq.TransactionProducer
	lock         sync.Mutex
	consumers    []rocketmq.PushConsumer
}

func (a *application) startProducers() {
	a.plain = a.startProducer("go-plain")
	a.byKey = a.startProducer("go-by-key", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	a.asker = a.startProducer("go-asker")
	a.replier = a.startProducer("go-replier")
	made, err := rocketmq.NewTransactionProducer(listener{}, a.producerOptions("go-transactions")...)
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		fail(1, "the producer of transactions does not start: %v", err)
	}
	a.transactions = made
}

func (a *application) producerOptions(group string) []producer.Option {
	return []producer.Option{
		producer.WithGroupName(group),
		producer.WithInstanceName(group),
		producer.WithNameServer(primitive.NamesrvAddr{a.namesrv}),
	}
}

func (a *application) startProducer(group string, more ...producer.Option) rocketmq.Producer {
	made, err := rocketmq.NewProducer(append(a.producerOptions(group), more...)...)
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		fail(1, "the producer %s does not start: %v", group, err)
	}
	return made
}

// A topic made, seen and deleted by the client's own administrator.
func (a *application) administer(broker string) {
	tool, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{a.namesrv})))
	if err != nil {
		say("failed admin %v", err)
		return
	}
	defer tool.Close()
	ctx, topic := context.Background(), "go-administered"
	err = tool.CreateTopic(ctx, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
		admin.WithReadQueueNums(3), admin.WithWriteQueueNums(3))
	if err != nil {
		say("failed admin-create %v", err)
	}
	say("admin listed %t", a.listed(tool, topic))
	queues, err := tool.FetchPublishMessageQueues(ctx, topic)
	if err != nil {
		say("failed admin-queues %v", err)
	}
	say("admin queues %d", len(queues))
	if err = tool.DeleteTopic(ctx, admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(broker)); err != nil {
		say("failed admin-delete %v", err)
	}
	say("admin gone %t", !a.listed(tool, topic))
}

// Brokers tell the name server of a topic as they please: soon, not at once.
func (a *application) listed(tool admin.Admin, topic string) bool {
	found, err := tool.FetchAllTopicList(context.Background())
	if err != nil {
		say("failed admin-list %v", err)
		return false
	}
	for _, one := range found.TopicList {
		if one == topic {
			return true
		}
	}
	return false
}

func (a *application) sendAll(from, to int) {
	for number := from; number < to; number++ {
		a.until("plain", number, a.plain, a.plainMessage(number))
		a.until("retry", number, a.plain, message("retry", number))
		a.until("delayed", number, a.plain, message("delayed", number).WithDelayTimeLevel(delayLevel))
		timed := message("timed", number)
		timed.WithProperty("TIMER_DELAY_MS", strconv.Itoa(timerMs))
		a.until("timed", number, a.plain, timed)
		key := strconv.Itoa(number % orderlyKeys)
		a.until("orderly", number, a.byKey, message("orderly", number).WithShardingKey(key))
		a.transact(number)
		a.request(number)
	}
	a.batches(from, to)
	a.withoutWaiting(from, to)
}

func message(feature string, number int) *primitive.Message {
	key := strconv.Itoa(number)
	return primitive.NewMessage("go-"+feature, []byte("body of "+key)).WithKeys([]string{key})
}

func (a *application) plainMessage(number int) *primitive.Message {
	made := message("plain", number).WithTag(fmt.Sprintf("T%d", number%3))
	made.WithProperty("a", strconv.Itoa(number))
	made.WithProperty("b", []string{"x", "y"}[number%2])
	if number%compressedOf == 0 {
		made.Body = []byte(strings.Repeat("z", largeBytes))
	}
	return made
}

// Again and again, as an application does whose messages must not be lost; false when it gives up.
func untilDone(attempt func() bool) bool {
	for begun := time.Now(); time.Since(begun) < giveUpAfter; time.Sleep(retryPause) {
		if attempt() {
			return true
		}
	}
	return false
}

// Its send began at the time that is said of each number.
func (a *application) until(feature string, number int, by rocketmq.Producer, one *primitive.Message) {
	if !a.together(feature, []int{number}, by, one) {
		say("failed send-%s %d", feature, number)
	}
}

func (a *application) together(
	feature string, numbers []int, by rocketmq.Producer, messages ...*primitive.Message,
) bool {
	return untilDone(func() bool {
		at := time.Now().UnixMilli()
		result, err := by.SendSync(context.Background(), messages...)
		if err != nil || result.Status != primitive.SendOK {
			return false
		}
		for _, number := range numbers {
			say("sent %s %d %d", feature, number, at)
		}
		return true
	})
}

type listener struct{}

// Of three, one is committed, one rolled back, one left open.
func (listener) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	number, _ := strconv.Atoi(message.GetKeys())
	return []primitive.LocalTransactionState{
		primitive.CommitMessageState, primitive.RollbackMessageState, primitive.UnknowState,
	}[number%3]
}

func (listener) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	number, _ := strconv.Atoi(message.GetKeys())
	say("asked %d", number)
	if number%3 == 1 {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func (a *application) transact(number int) {
	sent := untilDone(func() bool {
		at := time.Now().UnixMilli()
		result, err := a.transactions.SendMessageInTransaction(
			context.Background(), message("transactions", number))
		if err != nil || result.Status != primitive.SendOK {
			return false
		}
		say("sent transactions %d %d", number, at)
		return true
	})
	if !sent {
		say("failed send-transactions %d", number)
	}
}

// Answered by a consumer of this program, so that there is none before it has started.
func (a *application) request(number int) {
	if len(a.consumers) == 0 {
		return
	}
	replied := untilDone(func() bool {
		reply, err := a.asker.Request(context.Background(), requestWithin, message("request", number))
		if err != nil || string(reply.Body) != "reply to body of "+strconv.Itoa(number) {
			say("asked-again %d %v", number, err)
			return false
		}
		say("replied %d", number)
		return true
	})
	if !replied {
		say("failed request %d", number)
	}
}

func (a *application) batches(from, to int) {
	for first := from; first < to; first += batchOf {
		var numbers []int
		var messages []*primitive.Message
		for number := first; number < min(first+batchOf, to); number++ {
			numbers = append(numbers, number)
			messages = append(messages, message("batch", number))
		}
		if !a.together("batch", numbers, a.plain, messages...) {
			say("failed send-batch %d", first)
		}
	}
}

// Sends whose answer comes to a function, and sends that have none.
func (a *application) withoutWaiting(from, to int) {
	var waits sync.WaitGroup
	for number := from; number < to; number++ {
		number := number
		waits.Add(1)
		var once sync.Once
		told := func(_ context.Context, result *primitive.SendResult, err error) {
			if err == nil && result.Status == primitive.SendOK {
				say("sent async %d %d", number, time.Now().UnixMilli())
			}
			once.Do(waits.Done)
		}
		if err := a.plain.SendAsync(context.Background(), told, message("async", number)); err != nil {
			once.Do(waits.Done)
		}
		if err := a.plain.SendOneWay(context.Background(), message("oneway", number)); err == nil {
			say("sent oneway %d %d", number, time.Now().UnixMilli())
		}
	}
	answered := make(chan struct{})
	go func() { waits.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(asyncWithin):
		say("failed async answers are missing after %v", asyncWithin)
	}
}

func (a *application) end() {
	for _, one := range a.consumers {
		one.Shutdown()
	}
	for _, one := range []rocketmq.Producer{a.plain, a.byKey, a.asker, a.replier} {
		one.Shutdown()
	}
	a.transactions.Shutdown()
}
