//! Request bodies: what is taken, and what is said of the rest, word for word.

use serde_json::json;

use crate::fixture::{Server, World};

/// Sends the bodies one after the other; each must be refused with 400 and the detail.
async fn are_refused(world: &World, method: &str, path: &str, cases: &[(&'static [u8], &str)]) {
    for (body, detail) in cases {
        let answer = world.raw(method, path, *body).await;
        let error = answer.json()["error"].clone();
        let shown = String::from_utf8_lossy(body);
        assert_eq!(error, json!(format!("bad request body: {detail}")), "{method} {path} {shown}");
        assert_eq!(answer.status, 400, "{method} {path} {shown}");
    }
}

async fn malformed_json_is_told_as_go_does(server: Server) {
    // P04 P05
    let world = World::new(server).await;
    let begin = "looking for beginning of value";
    let cases: Vec<(&'static [u8], String)> = vec![
        (b"", "EOF".into()),
        (b" \n\t", "EOF".into()),
        (b"{", "unexpected EOF".into()),
        (b"[1,", "unexpected EOF".into()),
        (b"nul", "unexpected EOF".into()),
        (b"-", "unexpected EOF".into()),
        (b"{\"name\":\"a", "unexpected EOF".into()),
        (b"}", format!("invalid character '}}' {begin}")),
        (b"\x00", format!("invalid character '\\x00' {begin}")),
        (b"\x0b", format!("invalid character '\\v' {begin}")),
        (b"\x7f", format!("invalid character '\\x7f' {begin}")),
        (b"\\", format!("invalid character '\\\\' {begin}")),
        (b"\x80", format!("invalid character '\\u0080' {begin}")),
        (b"\xad", format!("invalid character '\\u00ad' {begin}")),
        (b"\xff", format!("invalid character '\u{ff}' {begin}")),
        (b"\xef\xbb\xbf{}", format!("invalid character '\u{ef}' {begin}")),
        (b"{\"name\":NaN}", format!("invalid character 'N' {begin}")),
        (b"{\"name\":+1}", format!("invalid character '+' {begin}")),
        (b"{\"a\":[1,]}", format!("invalid character ']' {begin}")),
        (b"{'name':'a'}", "invalid character '\\'' looking for beginning of object key string".into()),
        (b"{\"name\":\"a\",}", "invalid character '}' looking for beginning of object key string".into()),
        (b"{\"name\" \"a\"}", "invalid character '\"' after object key".into()),
        (b"{\"name\":\"a\" \"b\":1}", "invalid character '\"' after object key:value pair".into()),
        (b"{\"name\":01}", "invalid character '1' after object key:value pair".into()),
        (b"[1 2]", "invalid character '2' after array element".into()),
        (b"{\"name\":\"a\nb\"}", "invalid character '\\n' in string literal".into()),
        (b"{\"name\":\"\\x\"}", "invalid character 'x' in string escape code".into()),
        (b"{\"name\":\"\\u12\"}", "invalid character '\"' in \\u hexadecimal character escape".into()),
        (b"{\"name\":-}", "invalid character '}' in numeric literal".into()),
        (b"{\"name\":1.}", "invalid character '}' after decimal point in numeric literal".into()),
        (b"{\"name\":1e}", "invalid character '}' in exponent of numeric literal".into()),
        (b"[tru]", "invalid character ']' in literal true (expecting 'e')".into()),
        (b"[fx]", "invalid character 'x' in literal false (expecting 'a')".into()),
        (b"[nulk]", "invalid character 'k' in literal null (expecting 'l')".into()),
    ];
    let cases: Vec<_> = cases.iter().map(|(body, detail)| (*body, detail.as_str())).collect();
    are_refused(&world, "POST", "/proxies", &cases).await;
    are_refused(&world, "POST", "/populate", &cases).await;
    world.proxy("p", "127.0.0.1:1").await;
    are_refused(&world, "PATCH", "/proxies/p", &cases).await;
    are_refused(&world, "POST", "/proxies/p/toxics", &cases).await;
}

async fn a_proxy_of_wrong_types_is_refused(server: Server) {
    // P04 P05
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    let cases: [(&[u8], &str); 11] = [
        (b"[]", "json: cannot unmarshal array into Go value of type toxiproxy.Proxy"),
        (b"1.5", "json: cannot unmarshal number into Go value of type toxiproxy.Proxy"),
        (b"\"x\"", "json: cannot unmarshal string into Go value of type toxiproxy.Proxy"),
        (b"true", "json: cannot unmarshal bool into Go value of type toxiproxy.Proxy"),
        (br#"{"name":1}"#, "json: cannot unmarshal number into Go struct field Proxy.name of type string"),
        (br#"{"NAME":{}}"#, "json: cannot unmarshal object into Go struct field Proxy.name of type string"),
        (br#"{"upstream":[]}"#, "json: cannot unmarshal array into Go struct field Proxy.upstream of type string"),
        (br#"{"listen":5}"#, "json: cannot unmarshal number into Go struct field Proxy.listen of type string"),
        (br#"{"enabled":"yes"}"#, "json: cannot unmarshal string into Go struct field Proxy.enabled of type bool"),
        (br#"{"enabled":1}"#, "json: cannot unmarshal number into Go struct field Proxy.enabled of type bool"),
        // The first one in the body, not in our list.
        (
            br#"{"upstream":true,"name":1}"#,
            "json: cannot unmarshal bool into Go struct field Proxy.upstream of type string",
        ),
    ];
    are_refused(&world, "POST", "/proxies", &cases).await;
    are_refused(&world, "PATCH", "/proxies/p", &cases).await;
    are_refused(&world, "POST", "/proxies/p", &cases).await;
}

async fn a_populate_body_of_wrong_types_is_refused(server: Server) {
    // P11
    let world = World::new(server).await;
    let entry = r#"struct { toxiproxy.Proxy; Enabled *bool "json:\"enabled\"" }"#;
    let cases: Vec<(&'static [u8], String)> = vec![
        (b"{}", format!("json: cannot unmarshal object into Go value of type []{entry}")),
        (b"\"x\"", format!("json: cannot unmarshal string into Go value of type []{entry}")),
        (b"[[]]", format!("json: cannot unmarshal array into Go value of type {entry}")),
        (b"[{},1]", format!("json: cannot unmarshal number into Go value of type {entry}")),
        (
            br#"[{"name":""},{"name":1}]"#,
            "json: cannot unmarshal number into Go struct field .Proxy.name of type string".into(),
        ),
        (
            br#"[{"enabled":"x","name":3}]"#,
            "json: cannot unmarshal string into Go struct field .enabled of type bool".into(),
        ),
    ];
    let cases: Vec<_> = cases.iter().map(|(body, detail)| (*body, detail.as_str())).collect();
    are_refused(&world, "POST", "/populate", &cases).await;
    assert!(world.client.list().await.expect("a list").is_empty());
}

async fn a_toxic_of_wrong_types_is_refused(server: Server) {
    // P34
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    let latency = "LatencyToxic.attributes.latency of type int64";
    let cases: Vec<(&'static [u8], String)> = vec![
        (b"[]", "json: cannot unmarshal array into Go value of type toxics.ToxicWrapper".into()),
        (
            br#"{"type":1,"name":2}"#,
            "json: cannot unmarshal number into Go struct field ToxicWrapper.type of type string".into(),
        ),
        (
            br#"{"type":"noop","toxicity":"1"}"#,
            "json: cannot unmarshal string into Go struct field ToxicWrapper.toxicity of type float32".into(),
        ),
        (
            br#"{"type":"noop","toxicity":1e39}"#,
            "json: cannot unmarshal number 1e39 into Go struct field ToxicWrapper.toxicity of type float32".into(),
        ),
        (
            br#"{"type":"latency","attributes":[]}"#,
            "json: cannot unmarshal array into Go struct field ToxicWrapper.attributes of type toxics.NoopToxic".into(),
        ),
        (
            br#"{"type":"latency","attributes":{"latency":"5"}}"#,
            format!("json: cannot unmarshal string into Go struct field {latency}"),
        ),
        (
            br#"{"type":"latency","attributes":{"latency":5.0}}"#,
            format!("json: cannot unmarshal number 5.0 into Go struct field {latency}"),
        ),
        (
            br#"{"type":"latency","attributes":{"Latency":9223372036854775808}}"#,
            format!("json: cannot unmarshal number 9223372036854775808 into Go struct field {latency}"),
        ),
        (
            br#"{"type":"reset_peer","attributes":{"timeout":true}}"#,
            "json: cannot unmarshal bool into Go struct field ResetToxic.attributes.timeout of type int64".into(),
        ),
        (
            br#"{"type":"limit_data","attributes":{"bytes":1e3}}"#,
            "json: cannot unmarshal number 1e3 into Go struct field LimitDataToxic.attributes.bytes of type int64"
                .into(),
        ),
    ];
    let cases: Vec<_> = cases.iter().map(|(body, detail)| (*body, detail.as_str())).collect();
    are_refused(&world, "POST", "/proxies/p/toxics", &cases).await;
    world.raw("POST", "/proxies/p/toxics", r#"{"type":"latency"}"#).await;
    let change = r#"struct { Attributes interface {} "json:\"attributes\""; Toxicity float32 "json:\"toxicity\"" }"#;
    let cases: [(&[u8], &str); 4] = [
        (b"[]", &format!("json: cannot unmarshal array into Go value of type {change}")),
        (
            br#"{"toxicity":"x","attributes":[]}"#,
            "json: cannot unmarshal string into Go struct field .toxicity of type float32",
        ),
        (
            br#"{"attributes":[],"toxicity":"x"}"#,
            "json: cannot unmarshal array into Go struct field .attributes of type toxics.LatencyToxic",
        ),
        (
            br#"{"attributes":{"jitter":0.5}}"#,
            "json: cannot unmarshal number 0.5 into Go struct field LatencyToxic.attributes.jitter of type int64",
        ),
    ];
    are_refused(&world, "PATCH", "/proxies/p/toxics/latency_downstream", &cases).await;
    are_refused(&world, "POST", "/proxies/p/toxics/latency_downstream", &cases).await;
}

async fn what_is_not_there_comes_before_the_body(server: Server) {
    // P30
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    for body in ["{", "[]", ""] {
        world.raw("PATCH", "/proxies/p/toxics/none", body).await.is_error(404, "toxic not found");
        world.raw("POST", "/proxies/q/toxics", body).await.is_error(404, "proxy not found");
        world.raw("PATCH", "/proxies/q", body).await.is_error(404, "proxy not found");
    }
}

async fn a_field_given_twice_counts_twice(server: Server) {
    let world = World::new(server).await;
    world.proxy("p", "127.0.0.1:1").await;
    let add = |body: &'static str| world.raw("POST", "/proxies/p/toxics", body);
    assert_eq!(add(r#"{"type":"latency","TYPE":"noop"}"#).await.json()["name"], "noop_downstream");
    assert_eq!(add(r#"{"Type":"bogus","type":"noop","name":"n","name":null}"#).await.json()["name"], "n");
    let body = r#"{"type":"latency","attributes":{"latency":1,"jitter":2},"attributes":{"jitter":3,"JITTER":4}}"#;
    assert_eq!(add(body).await.json()["attributes"], json!({"latency": 1, "jitter": 4}));
    let body = r#"{"attributes":{"latency":5},"toxicity":0.5,"attributes":{"jitter":6},"toxicity":0.25}"#;
    let changed = world.raw("PATCH", "/proxies/p/toxics/latency_downstream", body).await.json();
    assert_eq!((&changed["attributes"], &changed["toxicity"]), (&json!({"latency": 5, "jitter": 6}), &json!(0.25)));
}

async fn what_is_no_unicode_is_replaced(server: Server) {
    // P16
    let world = World::new(server).await;
    let body = b"{\"name\":\"a\xe2\x82\\ud800\\ud83d\\ude00\",\"upstream\":\"\\udc00\xff\",\"enabled\":false}";
    let answer = world.raw("POST", "/proxies", &body[..]).await;
    let name = "a\u{fffd}\u{fffd}\u{fffd}\u{1f600}";
    assert_eq!(
        (answer.status, &answer.json()["name"], &answer.json()["upstream"]),
        (201, &json!(name), &json!("\u{fffd}\u{fffd}"))
    );
    assert_eq!(world.client.get(name).await.expect("by that name").upstream, "\u{fffd}\u{fffd}");
}

async fn what_nobody_asks_for_may_be_deep(server: Server) {
    let world = World::new(server).await;
    let body = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"name":"p","upstream":"127.0.0.1:1","enabled":false,"unknown":{open}{close}}}"#)
    };
    let refused = world.raw("POST", "/proxies", body(10_000)).await;
    refused.is_error(400, "bad request body: invalid character '[' exceeded max depth");
    assert_eq!(world.raw("POST", "/proxies", body(9_999)).await.status, 201);
    let entries = format!("[{}]", body(9_998));
    assert_eq!(world.raw("POST", "/populate", entries).await.status, 201);
}

async fn a_body_has_a_limit(server: Server) {
    // P68. A real one reads on as long as there is memory.
    let world = World::new(server).await;
    let answer = world.raw("POST", "/proxies", " ".repeat(8 << 20) + "{}").await;
    let (ours, real) = ("bad request body: length limit exceeded", "missing required field: name");
    answer.is_error(400, if server == Server::Ours { ours } else { real });
}

async fn names_come_back_as_they_were_given(server: Server) {
    // P16. A real one writes `<`, `>`, `&`, U+2028 and U+2029 as escapes, which is the same JSON.
    let world = World::new(server).await;
    for name in ["<b>&'\"\\", "a\u{2028}b\u{2029}", "\u{0}\u{1f}\u{7f}", "ü\u{1f600}"] {
        let body = json!({"name": name, "upstream": "127.0.0.1:1", "enabled": false}).to_string();
        let answer = world.raw("POST", "/proxies", body).await;
        assert_eq!((answer.status, &answer.json()["name"]), (201, &json!(name)));
        assert_eq!(world.client.get(name).await.expect("by that name").name, name);
    }
}

crate::trials! {
    both: [
        malformed_json_is_told_as_go_does, a_proxy_of_wrong_types_is_refused, a_populate_body_of_wrong_types_is_refused,
        a_toxic_of_wrong_types_is_refused, what_is_not_there_comes_before_the_body, a_field_given_twice_counts_twice,
        what_is_no_unicode_is_replaced, what_nobody_asks_for_may_be_deep, a_body_has_a_limit, names_come_back_as_they_were_given
    ]
}
