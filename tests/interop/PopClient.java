import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.*;
import org.apache.rocketmq.client.impl.mqclient.*;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.*;
import org.apache.rocketmq.remoting.protocol.heartbeat.*;
import org.apache.rocketmq.remoting.protocol.route.*;

/**
 * The pop calls of a stock RocketMQ client, one after the other, against one broker, or for as long as
 * it is wanted against whoever is master.
 *
 * It decides nothing: it prints what the library read out of each answer. The one broker is b.
 *
 *   HOST:PORT                      every call; topic T holds six messages in two queues, O three in one
 *   HOST:PORT WITHIN_MS WANTED N   pops T until so many came or the time is over, and acknowledges the first N
 *   mode=pop namesrv=H:P topic=T group=G received=FILE invisibleMs=MS
 *                                    until standard input is closed; acknowledges all but those that come for the
 *                                    first time and whose key is a multiple of 3. Lines of the file, times in ms:
 *                                    G,key,isBack,popTime,visible,queue,offset   a message is handed out
 *                                    S,key,popTime                               its acknowledgement is sent
 *                                    A,key,popTime,at                            its acknowledgement was answered with OK
 *                                    U,begun,ended                               a pop that nobody answered
 */
public class PopClient {
  static final int POLL_MS = 1000, CALL_MS = 3000;
  static MQClientAPIExt api; static String addr, group = "jg", broker = "b";
  static PopResult pop(String topic, boolean order, String attempt, long poll, long invisible) throws Exception {
    PopMessageRequestHeader h = new PopMessageRequestHeader();
    h.setConsumerGroup(group); h.setTopic(topic); h.setQueueId(order ? 0 : -1); h.setMaxMsgNums(32); h.setInvisibleTime(invisible);
    h.setPollTime(poll); h.setBornTime(System.currentTimeMillis()); h.setInitMode(0); h.setExpType("TAG"); h.setExp("*"); h.setOrder(order); h.setAttemptId(attempt);
    return api.popMessageAsync(addr, broker, h, poll + 10000).get();
  }
  static AckResult ack(MessageExt m) throws Exception { return asked(m).get(); }
  static CompletableFuture<AckResult> asked(MessageExt m) throws Exception {
    String[] x = ExtraInfoUtil.split(m.getProperty(MessageConst.PROPERTY_POP_CK));
    AckMessageRequestHeader h = new AckMessageRequestHeader();
    h.setConsumerGroup(group); h.setTopic(ExtraInfoUtil.getRealTopic(x, m.getTopic(), group)); h.setQueueId(ExtraInfoUtil.getQueueId(x));
    h.setOffset(ExtraInfoUtil.getQueueOffset(x)); h.setExtraInfo(m.getProperty(MessageConst.PROPERTY_POP_CK));
    return api.ackMessageAsync(addr, h, CALL_MS);
  }
  static AckResult change(MessageExt m, long invisible) throws Exception {
    String[] x = ExtraInfoUtil.split(m.getProperty(MessageConst.PROPERTY_POP_CK));
    ChangeInvisibleTimeRequestHeader h = new ChangeInvisibleTimeRequestHeader();
    h.setConsumerGroup(group); h.setTopic(ExtraInfoUtil.getRealTopic(x, m.getTopic(), group)); h.setQueueId(ExtraInfoUtil.getQueueId(x));
    h.setOffset(ExtraInfoUtil.getQueueOffset(x)); h.setExtraInfo(m.getProperty(MessageConst.PROPERTY_POP_CK)); h.setInvisibleTime(invisible);
    return api.changeInvisibleTimeAsync(addr, "b", h, 3000).get();
  }
  static void show(String what, PopResult r) {
    StringBuilder s = new StringBuilder(what + " " + r.getPopStatus() + " rest=" + r.getRestNum());
    if (r.getMsgFoundList() != null) for (MessageExt m : r.getMsgFoundList())
      s.append("\n   ").append(new String(m.getBody())).append(" topic=").append(m.getTopic()).append(" times=").append(m.getReconsumeTimes()).append(" ck=").append(m.getProperty(MessageConst.PROPERTY_POP_CK)).append(" 1st=").append(m.getProperty(MessageConst.PROPERTY_FIRST_POP_TIME));
    System.out.println(s);
  }
  public static void main(String[] a) throws Exception { try { run(a); } catch (Throwable e) { e.printStackTrace(); System.exit(1); } }
  static void take(long withinMs, int wanted, int acks) throws Exception {
    long until = System.currentTimeMillis() + withinMs;
    for (int n = 0; n < wanted && System.currentTimeMillis() < until; ) {
      PopResult r;
      try { r = pop("T", false, null, 2000, 15000); } catch (Exception e) { Thread.sleep(500); continue; }
      if (r.getMsgFoundList() == null || r.getMsgFoundList().isEmpty()) continue;
      show("taken", r);
      for (MessageExt m : r.getMsgFoundList()) { n++; if (acks-- > 0) System.out.println("ack " + new String(m.getBody()) + " " + ack(m).getStatus()); }
    }
  }
  static void note(BufferedWriter out, String line) {
    synchronized (out) { try { out.write(line + "\n"); out.flush(); } catch (IOException e) { System.exit(1); } }
  }
  /** Whoever is master by the route; null: nobody is. */
  static String master(String topic) throws Exception {
    for (BrokerData one : api.getTopicRouteInfoFromNameServer(topic, CALL_MS).getBrokerDatas()) { broker = one.getBrokerName(); return one.getBrokerAddrs().get(0L); }
    return null;
  }
  static void follow(String[] a) throws Exception {
    Map<String, String> o = new HashMap<>();
    for (String one : a) o.put(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
    api.updateNameServerAddressList(o.get("namesrv")); group = o.get("group");
    Set<String> seen = new HashSet<>();
    BufferedWriter out = Files.newBufferedWriter(Path.of(o.get("received")), StandardCharsets.UTF_8);
    Thread reader = new Thread(() -> { try { while (System.in.read() >= 0) { } } catch (IOException e) { } System.exit(0); });
    reader.start();
    while (true) {
      long begun = System.currentTimeMillis();
      try {
        addr = master(o.get("topic"));
        if (addr == null) throw new MQBrokerException(0, "no master");
        PopResult r = pop(o.get("topic"), false, null, POLL_MS, Long.parseLong(o.get("invisibleMs")));
        if (r.getMsgFoundList() != null) for (MessageExt m : r.getMsgFoundList()) handed(out, m, seen.add(m.getKeys()) && Integer.parseInt(m.getKeys()) % 3 == 0);
      } catch (Exception e) {
        if (!(e instanceof MQBrokerException) && !(e.getCause() instanceof MQBrokerException)) note(out, "U," + begun + "," + System.currentTimeMillis());
        Thread.sleep(100);
      }
    }
  }
  static void handed(BufferedWriter out, MessageExt m, boolean left) throws Exception {
    String[] x = ExtraInfoUtil.split(m.getProperty(MessageConst.PROPERTY_POP_CK));
    long popTime = ExtraInfoUtil.getPopTime(x);
    note(out, "G," + m.getKeys() + "," + (x[4].equals("0") ? 0 : 1) + "," + popTime + "," + (popTime + ExtraInfoUtil.getInvisibleTime(x))
        + "," + ExtraInfoUtil.getQueueId(x) + "," + ExtraInfoUtil.getQueueOffset(x));
    if (left) return;
    note(out, "S," + m.getKeys() + "," + popTime);
    asked(m).whenComplete((r, e) -> { if (e == null && r.getStatus() == AckStatus.OK) note(out, "A," + m.getKeys() + "," + popTime + "," + System.currentTimeMillis()); });
  }
  static void run(String[] a) throws Exception {
    api = new MQClientAPIExt(new ClientConfig(), new NettyClientConfig(), new ClientRemotingProcessor(null), null);
    api.start();
    if (a[0].contains("=")) { follow(a); System.exit(0); }
    addr = a[0];
    if (a.length > 1) { take(Long.parseLong(a[1]), Integer.parseInt(a[2]), Integer.parseInt(a[3])); System.exit(0); }
    PopResult r = pop("T", false, null, 20000, 3000); show("pop", r);
    List<MessageExt> got = r.getMsgFoundList();
    System.out.println("ack " + ack(got.get(0)).getStatus());
    System.out.println("batch " + api.batchAckMessageAsync(addr, "T", "jg", List.of(got.get(1).getProperty("POP_CK"), got.get(2).getProperty("POP_CK")), 3000).get().getStatus());
    AckResult c = change(got.get(3), 7000); System.out.println("change " + c.getStatus() + " " + c.getExtraInfo());
    show("empty", pop("T", false, null, 1000, 3000));
    NotificationRequestHeader n = new NotificationRequestHeader(); n.setConsumerGroup("jg"); n.setTopic("T"); n.setQueueId(-1); n.setPollTime(20000); n.setBornTime(System.currentTimeMillis());
    long t = System.currentTimeMillis(); System.out.println("notified " + api.notification(addr, n, 30000).get());
    PopResult back = pop("T", false, null, 20000, 60000); show("back", back);
    for (MessageExt m : back.getMsgFoundList()) System.out.println("ack " + ack(m).getStatus());
    back = pop("T", false, null, 15000, 60000); show("changed", back);
    for (MessageExt m : back.getMsgFoundList()) System.out.println("ack " + ack(m).getStatus());
    PopResult o = pop("O", true, "a1", 20000, 15000); show("ordered", o); show("blocked", pop("O", true, "a2", 0, 15000));
    for (MessageExt m : o.getMsgFoundList()) System.out.println("ack " + ack(m).getStatus());
    api.setMessageRequestMode(addr, "T", "jg", MessageRequestMode.POP, 0, 3000);
    HeartbeatData hb = new HeartbeatData(); hb.setClientID("me"); ConsumerData cd = new ConsumerData(); cd.setGroupName("jg"); cd.setConsumeType(ConsumeType.CONSUME_POP); cd.setMessageModel(MessageModel.CLUSTERING);
    cd.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); SubscriptionData sd = new SubscriptionData("T", "*"); cd.getSubscriptionDataSet().add(sd); hb.getConsumerDataSet().add(cd);
    api.sendHeartbeat(addr, hb, 3000);
    System.out.println("assigned " + api.queryAssignment(addr, "T", "jg", "me", "AVG", MessageModel.CLUSTERING, 3000));
    System.out.println("retry assigned " + api.queryAssignment(addr, "%RETRY%jg", "jg", "me", "AVG", MessageModel.CLUSTERING, 3000));
    api.shutdown(); System.exit(0);
  }
}
