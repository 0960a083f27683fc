package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const (
	startWithin = 60 * time.Second
	retriesMost = 2
	retryGroup  = "go-retry"
)

type heard func(context.Context, *primitive.MessageExt) consumer.ConsumeResult

func (a *application) startConsumers() {
	byTags := consumer.MessageSelector{Type: consumer.TAG, Expression: "T0 || T1"}
	bySQL := consumer.MessageSelector{Type: consumer.SQL92, Expression: "a > 5 AND b = 'x'"}
	all := consumer.MessageSelector{}
	broadcast := consumer.WithConsumerModel(consumer.BroadCasting)
	a.start("plain", "go-plain", all, got("plain"))
	a.start("tags", "go-plain", byTags, got("tags"))
	a.start("sql", "go-plain", bySQL, got("sql"))
	// Two of one group, as on two hosts.
	a.start("broadcast", "go-plain", all, got("broadcast-1"), broadcast, consumer.WithInstance("one"))
	a.start("broadcast", "go-plain", all, got("broadcast-2"), broadcast, consumer.WithInstance("two"))
	a.start("orderly", "go-orderly", all, got("orderly"), consumer.WithConsumerOrder(true))
	for _, feature := range []string{"delayed", "timed", "transactions", "batch", "async", "oneway"} {
		a.startBesides(feature, got(feature))
	}
	a.start("retry", "go-retry", all, again, consumer.WithMaxReconsumeTimes(retriesMost))
	go a.start("dead", "%DLQ%"+retryGroup, all, got("dead"))
	a.until("request", -1, a.plain, message("request", -1))
	a.start("request", "go-request", all, a.reply)
}

func (a *application) startBesides(feature string, listener heard) {
	a.start(feature, "go-"+feature, consumer.MessageSelector{}, listener)
}

func got(who string) heard {
	return func(_ context.Context, message *primitive.MessageExt) consumer.ConsumeResult {
		more := strconv.Itoa(int(message.ReconsumeTimes))
		if number, _ := strconv.Atoi(message.GetKeys()); who == "plain" && number%compressedOf == 0 {
			more = fmt.Sprintf("bytes=%d", len(message.Body))
		}
		if who == "orderly" {
			more = fmt.Sprintf("queue=%d", message.Queue.QueueId)
		}
		say("got %s %s %d %s", who, message.GetKeys(), time.Now().UnixMilli(), more)
		return consumer.ConsumeSuccess
	}
}

// Of four, one is asked for once more, and one always until it is a dead letter.
func again(ctx context.Context, message *primitive.MessageExt) consumer.ConsumeResult {
	got("retry")(ctx, message)
	number, _ := strconv.Atoi(message.GetKeys())
	if number%4 == 3 || (number%4 == 1 && message.ReconsumeTimes == 0) {
		if concurrently, there := primitive.GetConcurrentlyCtx(ctx); there {
			concurrently.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater
	}
	return consumer.ConsumeSuccess
}

func (a *application) reply(_ context.Context, message *primitive.MessageExt) consumer.ConsumeResult {
	if message.GetKeys() == "-1" {
		return consumer.ConsumeSuccess
	}
	// The library takes the body that it is given here for properties, and sends none.
	answer, err := consumer.CreateReplyMessage(message, nil)
	if err == nil {
		answer.Body = append([]byte("reply to "), message.Body...)
		_, err = a.replier.SendSync(context.Background(), answer)
	}
	if err != nil {
		say("reply-failed %s %v", message.GetKeys(), err)
	}
	return consumer.ConsumeSuccess
}

// The client does not start a consumer of a topic without a route: a dead letter's comes late.
func (a *application) start(
	name, topic string, selector consumer.MessageSelector, listener heard, more ...consumer.Option,
) {
	var err error
	for begun := time.Now(); time.Since(begun) < startWithin; time.Sleep(time.Second) {
		var made rocketmq.PushConsumer
		options := []consumer.Option{
			consumer.WithGroupName("go-" + name),
			consumer.WithInstance(name),
			consumer.WithNameServer(primitive.NamesrvAddr{a.namesrv}),
			consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		}
		if made, err = rocketmq.NewPushConsumer(append(options, more...)...); err != nil {
			continue
		}
		each := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return listener(ctx, messages[0]), nil
		}
		if err = made.Subscribe(topic, selector, each); err == nil {
			err = made.Start()
		}
		if err == nil {
			a.keep(made)
			return
		}
		made.Shutdown()
	}
	say("failed start-%s %v", name, err)
}

func (a *application) keep(one rocketmq.PushConsumer) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.consumers = append(a.consumers, one)
}
