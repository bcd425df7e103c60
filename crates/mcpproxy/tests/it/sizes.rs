//! Answers of any size up to the bounds: whole, in little memory, or refused with a clear error on a living connection.

use testkit::http::Form;
use testkit::script::generated;
use testkit::{Action, HttpUpstream, Script, tree};

use crate::common::{home_with, no_temporary};

const MIB: u64 = 1 << 20;

#[test]
fn a_60_megabyte_answer_is_saved_in_less_than_64_megabytes_of_growth() {
    let bytes = 60 * 1_000_000;
    let script = |id_last| Script::action(Action::Generate(bytes)).id_last(id_last);
    let streams = HttpUpstream::start(script(true), Form::Events);
    let plain = HttpUpstream::start(script(false), Form::Json);
    let home = home_with(script(true))
        .http_upstream("streams", &streams)
        .http_upstream("plain", &plain)
        .set("tool_output_max_bytes", 100 * MIB);
    let gateway = home.serve();
    gateway.call("srv:tool").save(home.at("root/warm")).send().envelope();
    let before = gateway.resident();
    for server in ["srv", "streams", "plain"] {
        let path = home.at(&format!("root/{server}"));
        let envelope = gateway.call(&format!("{server}:tool")).save(&path).send().envelope();
        assert_eq!(envelope["bytes"], bytes);
        assert_eq!(envelope["sha256"], expected(bytes), "{server}");
    }
    let growth = gateway.peak().saturating_sub(before);
    assert!(growth < 64 * MIB, "grew by {} MiB", growth / MIB);
    no_temporary(&home.at("root"));
}

#[test]
fn over_the_cap_the_save_fails_and_the_body_is_not_sent() {
    let home = home_with(Script::action(Action::Generate(60 * MIB)));
    let gateway = home.serve();
    let reply = gateway.call("srv:tool").save(home.at("root/x")).send();
    let text = reply.refusal();
    assert!(text.contains("tool_output_max_bytes") && text.contains("52428800"), "{text}");
    assert!(reply.body.len() < 4096);
    assert_eq!(std::fs::read_dir(home.at("root")).unwrap().count(), 0);
}

#[test]
fn over_the_message_bound_the_call_fails_and_the_next_one_on_that_connection_works() {
    for id_last in [false, true] {
        let large = Script::action(Action::Generate(8 * MIB)).id_last(id_last);
        let http = HttpUpstream::start(large.clone(), Form::Events);
        let home = home_with(large).http_upstream("web", &http).set("upstream_max_message_bytes", 4 * MIB);
        let gateway = home.serve();
        for server in ["srv", "web"] {
            let text = gateway.call(&format!("{server}:tool")).send().refusal();
            assert!(text.contains("upstream_max_message_bytes"), "{text}");
        }
        home.script("srv", &Script::text("next"));
        http.set(Script::text("next"));
        for server in ["srv", "web"] {
            assert_eq!(gateway.call(&format!("{server}:tool")).send().first_text(), "next");
        }
        assert_eq!(home.lines("srv", "pids").len(), 1, "the upstream was not restarted");
        assert_eq!(
            home.events("tool_call", 4).iter().filter(|r| r["reason"] == "upstream_too_large").count(),
            2
        );
    }
}

#[test]
fn answers_round_every_hidden_limit_are_whole() {
    for form in [Form::Json, Form::Events] {
        let http = HttpUpstream::start(Script::text(""), form);
        let home = home_with(Script::text("")).http_upstream("web", &http);
        let gateway = home.serve();
        for kib in [63, 64, 65, 1023, 1024, 1025, 1126, 2150, 10_752] {
            let script = Script::action(Action::Generate(kib * 1024)).id_last(kib % 2 == 0);
            home.script("srv", &script);
            http.set(script);
            for server in ["srv", "web"] {
                let path = home.at("root/x");
                let envelope =
                    gateway.call(&format!("{server}:tool")).save(&path).overwrite().send().envelope();
                assert_eq!(envelope["sha256"], expected(kib * 1024), "{server} {kib} KiB");
                assert_eq!(std::fs::metadata(&path).unwrap().len(), kib * 1024);
            }
        }
    }
}

#[test]
fn a_large_answer_is_forwarded_whole_to_a_client_that_takes_it() {
    let home = home_with(Script::action(Action::Generate(12 * MIB)));
    let gateway = home.serve();
    let text = gateway.call("srv:tool").send().first_text();
    assert_eq!(tree::sha256(text.as_bytes()), expected(12 * MIB));
}

#[test]
fn what_large_answers_take_on_the_disk_is_bounded_and_given_back() {
    let home = home_with(Script::action(Action::Generate(8 * MIB))).set("spool_max_bytes", 4 * MIB);
    let gateway = home.serve();
    let text = gateway.call("srv:tool").send().refusal();
    assert!(text.contains("spool_max_bytes"), "{text}");
    home.script("srv", &Script::action(Action::Generate(2 * MIB)));
    for _ in 0..5 {
        assert!(!gateway.call("srv:tool").send().is_error());
    }
    assert_eq!(std::fs::read_dir(home.data().join("spool")).unwrap().count(), 0, "spools have no name");
}

fn expected(bytes: u64) -> String {
    let mut all = Vec::with_capacity(usize::try_from(bytes).unwrap());
    generated(bytes, |piece| all.extend_from_slice(piece));
    tree::sha256(&all)
}
