import com.alibaba.fastjson.JSON;
import java.util.*;
import org.apache.rocketmq.store.pop.*;
import org.apache.rocketmq.broker.processor.PopMessageProcessor;
import org.apache.rocketmq.broker.offset.ConsumerOrderInfoManager.OrderInfo;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.body.*;
import org.apache.rocketmq.common.KeyBuilder;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import java.lang.reflect.*;

/** What RocketMQ's own classes make of pop consumption; README.md beside it says how it is run. */
public class RecordPop {
  static Map<String,Object> out = new LinkedHashMap<>();
  static String gen(String name, Class<?> c, Object o) throws Exception {
    Method m = PopMessageProcessor.class.getDeclaredMethod(name, c); m.setAccessible(true);
    return (String) m.invoke(null, o);
  }
  static PopCheckPoint ck(String topic, int[] diffs, String rp) {
    PopCheckPoint p = new PopCheckPoint();
    p.setBitMap(0); p.setNum((byte) diffs.length); p.setPopTime(1795413789348L); p.setInvisibleTime(10000L);
    p.setStartOffset(7L); p.setCId("G1"); p.setTopic(topic); p.setQueueId(3); p.setBrokerName("b1");
    for (int d : diffs) p.addDiff(d);
    if (rp != null) p.setRePutTimes(rp);
    return p;
  }
  static <T extends AckMsg> T ack(T a) {
    a.setAckOffset(9L); a.setStartOffset(7L); a.setConsumerGroup("G1"); a.setTopic("P1");
    a.setQueueId(3); a.setPopTime(1795413789348L); a.setBrokerName("b1"); return a;
  }
  public static void main(String[] args) throws Exception {
    List<Object> cks = new ArrayList<>();
    for (Object[] one : new Object[][]{{"P1", new int[]{0,1,2}, null}, {"%RETRY%G1_P1", new int[]{0,5,9}, "3"}, {"P1", new int[]{2}, null}}) {
      PopCheckPoint p = ck((String) one[0], (int[]) one[1], (String) one[2]);
      Map<String,Object> m = new LinkedHashMap<>();
      m.put("body", JSON.toJSONString(p)); m.put("key", gen("genCkUniqueId", PopCheckPoint.class, p));
      List<Long> offs = new ArrayList<>(); for (byte i = 0; i < p.getNum(); i++) offs.add(p.ackOffsetByIndex(i));
      m.put("offsets", offs); m.put("reviveTime", p.getReviveTime()); m.put("rePuts", p.parseRePutTimes());
      cks.add(m);
    }
    out.put("checkPoints", cks);
    AckMsg a = ack(new AckMsg());
    out.put("ack", Map.of("body", JSON.toJSONString(a), "key", gen("genAckUniqueId", AckMsg.class, a)));
    BatchAckMsg b = ack(new BatchAckMsg()); b.setAckOffset(-1L); b.setAckOffsetList(new ArrayList<>(List.of(8L, 9L)));
    out.put("batchAck", Map.of("body", JSON.toJSONString(b), "key", gen("genAckUniqueId", AckMsg.class, b)));
    if (args.length > 0) { // what ours wrote, read by Java
      List<Object> read = new ArrayList<>();
      for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(args[0]))) {
        String tag = line.substring(0, line.indexOf(' ')), body = line.substring(line.indexOf(' ') + 1);
        Object o = JSON.parseObject(body, tag.equals("ck") ? PopCheckPoint.class : tag.equals("ack") ? AckMsg.class : BatchAckMsg.class);
        read.add(o.toString());
      }
      System.err.println(String.join("\n", (List) read));
    }
    StringBuilder s = new StringBuilder(), mo = new StringBuilder(), oc = new StringBuilder();
    ExtraInfoUtil.buildStartOffsetInfo(s, "T", 1, 0); ExtraInfoUtil.buildStartOffsetInfo(s, "%RETRY%G1_T", 0, 4);
    ExtraInfoUtil.buildStartOffsetInfo(s, "%RETRY%G1+T", 0, 5);
    ExtraInfoUtil.buildMsgOffsetInfo(mo, "T", 1, List.of(2L, 3L)); ExtraInfoUtil.buildMsgOffsetInfo(mo, "%RETRY%G1+T", 0, List.of(5L));
    ExtraInfoUtil.buildQueueOffsetOrderCountInfo(oc, "T", 1, 2, 3); ExtraInfoUtil.buildQueueIdOrderCountInfo(oc, "T", 1, 0);
    out.put("startOffsetInfo", s.toString()); out.put("msgOffsetInfo", mo.toString()); out.put("orderCountInfo", oc.toString());
    out.put("handles", List.of(ExtraInfoUtil.buildExtraInfo(7, 1795413789348L, 10000, 3, "T", "b1", 1, 9),
      ExtraInfoUtil.buildExtraInfo(7, 1795413789348L, 10000, 3, "%RETRY%G1_T", "b1", 0, 9),
      ExtraInfoUtil.buildExtraInfo(7, 1795413789348L, 10000, 3, "%RETRY%G1+T", "b1", 0, 9)));
    out.put("retryTopics", List.of(KeyBuilder.buildPopRetryTopicV1("T", "G1"), KeyBuilder.buildPopRetryTopicV2("T", "G1")));
    BatchAck e = new BatchAck(); e.setConsumerGroup("G1"); e.setTopic("T"); e.setRetry("1"); e.setStartOffset(7); e.setQueueId(0);
    e.setReviveQueueId(3); e.setPopTime(1795413789348L); e.setInvisibleTime(10000); BitSet bits = new BitSet(); bits.set(0); bits.set(2); bits.set(40); e.setBitSet(bits);
    BatchAckMessageRequestBody body = new BatchAckMessageRequestBody(); body.setBrokerName("b1"); body.setAcks(List.of(e));
    out.put("batchBody", new String(body.encode(), "UTF-8"));
    OrderInfo o1 = new OrderInfo("a1", 1000L, 3000L, new ArrayList<>(List.of(4L, 5L, 7L)), 1000L, 2L);
    OrderInfo o2 = new OrderInfo("a2", 5000L, 3000L, new ArrayList<>(List.of(4L, 5L, 7L, 8L)), 5000L, 0L);
    o2.mergeOffsetConsumedCount("a1", OrderInfo.buildOffsetList(List.of(4L, 5L, 7L)), o1.getOffsetConsumedCount());
    o2.updateOffsetNextVisibleTime(5L, 9000L);
    out.put("ordered", List.of(JSON.toJSONString(o1), JSON.toJSONString(o2)));
    Map<String,Object> shares = new TreeMap<>();
    for (var strategy : List.of(new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle()))
      for (int queues : new int[]{1, 3, 4, 8, 13}) for (int clients : new int[]{1, 2, 3, 5, 8, 10}) {
        List<MessageQueue> qs = new ArrayList<>(); for (int i = 0; i < queues; i++) qs.add(new MessageQueue("T", "b1", i));
        List<String> ids = new ArrayList<>(); for (int i = 0; i < clients; i++) ids.add(String.format("c%02d", i));
        List<Object> each = new ArrayList<>();
        for (String id : ids) { List<Integer> got = new ArrayList<>(); for (MessageQueue q : strategy.allocate("g", id, qs, ids)) got.add(q.getQueueId()); each.add(got); }
        shares.put(strategy.getName() + " " + queues + " " + clients, each);
      }
    out.put("shares", shares);
    java.nio.file.Files.writeString(java.nio.file.Path.of(System.getProperty("to")), JSON.toJSONString(out) + "\n");
  }
}
