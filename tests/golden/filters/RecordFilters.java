import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Rows {"filter", "properties": [..]} from standard input, with what RocketMQ makes of each, to standard output. */
public class RecordFilters {
    public static void main(String[] arguments) throws Exception {
        BufferedReader rows = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String row = rows.readLine(); row != null; row = rows.readLine()) {
            out.println(recorded(JSON.parseObject(row)).toJSONString());
        }
        out.flush();
    }

    private static JSONObject recorded(JSONObject row) {
        JSONObject result = new JSONObject(true);
        result.put("filter", row.getString("filter"));
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(row.getString("filter"));
        } catch (Throwable refusal) {
            result.put("refused", refusal.getMessage());
            return result;
        }
        result.put("tree", compiled.toString());
        result.put("properties", row.getJSONArray("properties"));
        JSONArray values = new JSONArray();
        for (Object properties : row.getJSONArray("properties")) {
            values.add(value(compiled, (JSONObject) properties));
        }
        result.put("values", values);
        return result;
    }

    private static String value(Expression compiled, JSONObject properties) {
        EvaluationContext context = new EvaluationContext() {
            @Override
            public Object get(String name) {
                return properties.getString(name);
            }

            @Override
            public Map<String, Object> keyValues() {
                return properties;
            }
        };
        try {
            Object value = compiled.evaluate(context);
            return value == null ? "unknown" : value.toString();
        } catch (Throwable thrown) {
            return "exception";
        }
    }
}
