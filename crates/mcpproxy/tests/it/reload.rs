//! The configuration changed while the gateway runs: obeyed whole within three seconds, or not at all.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Gateway, Home, Script, home};

use crate::common::{home_with_text, saved, wait_for};

/// Writes the file as an editor does: a new file that takes the old one's place.
fn edit(home: &Home, change: impl FnOnce(&mut Value)) {
    let mut config: Value = serde_json::from_slice(&fs::read(home.config_file()).unwrap()).unwrap();
    change(&mut config);
    replace(home, &serde_json::to_vec_pretty(&config).unwrap());
}

fn replace(home: &Home, text: &[u8]) {
    let new = home.at("config.new");
    fs::write(&new, text).unwrap();
    fs::rename(new, home.config_file()).unwrap();
}

/// Within three seconds, as promised.
fn soon<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{what}: not within three seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn saves(gateway: &Gateway, path: std::path::PathBuf) -> bool {
    !gateway.call("srv:tool").save(path).overwrite().send().is_error()
}

fn server<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn a_root_that_is_taken_away_refuses_and_one_that_is_added_works() {
    let home = home_with_text();
    let gateway = home.serve();
    fs::create_dir(home.at("second")).unwrap();
    assert!(saves(&gateway, home.at("root/x")));
    edit(&home, |c| c["tool_output_roots"] = json!([home.at("second")]));
    soon("the new root", || saves(&gateway, home.at("second/x")).then_some(()));
    let text = gateway.call("srv:tool").save(home.at("root/y")).send().refusal();
    assert!(text.contains(home.at("second").to_str().unwrap()), "{text}");
    assert!(!home.at("root/y").exists());
    assert_eq!(home.lines("srv", "pids").len(), 1, "the server was not disturbed");
}

#[test]
fn every_way_in_which_editors_write_a_file_is_seen() {
    let home = home_with_text();
    let gateway = home.serve();
    let limit = |n: u64| {
        let home = &home;
        move |text: &str| {
            let mut config: Value = serde_json::from_str(text).unwrap();
            config["tool_output_max_bytes"] = json!(n);
            let _ = home;
            serde_json::to_string_pretty(&config).unwrap()
        }
    };
    let obeyed = |fits: bool| {
        soon("the change", || (saves(&gateway, home.at("root/x")) == fits).then_some(()));
    };
    let now = || fs::read_to_string(home.config_file()).unwrap();
    for round in 0..5 {
        let fits = round % 2 == 1;
        replace(&home, limit(if fits { 1000 } else { 2 })(&now()).as_bytes());
        obeyed(fits);
    }
    // Rename away and create, as vi does.
    let text = limit(1000)(&now());
    fs::rename(home.config_file(), home.at("backup")).unwrap();
    fs::write(home.config_file(), text).unwrap();
    obeyed(true);
    // Truncate and write in place.
    fs::write(home.config_file(), limit(2)(&now())).unwrap();
    obeyed(false);
}

#[test]
fn a_file_that_is_not_in_order_changes_nothing_and_is_told() {
    let home = home_with_text();
    let gateway = home.serve();
    let root = home.at("root").display().to_string();
    let good = fs::read_to_string(home.config_file()).unwrap();
    for bad in [
        format!(r#"{{"tool_output_roots":["{root}","#),
        "{} garbage".into(),
        good.replace(&root, "relative/root"),
        good.replace(&format!("\"{root}\""), &format!("\"{root}\",\"{root}/sub\"")),
        good.replace(&format!("\"{root}\""), &format!("\"{root}\",\"/\"")),
    ] {
        replace(&home, bad.as_bytes());
        soon("the error in status", || gateway.status()["config_error"].as_str().map(str::to_owned));
        assert!(saves(&gateway, home.at("root/x")), "{bad}");
        assert!(gateway.call("srv:tool").save("/tmp/y").send().is_error());
        replace(&home, good.as_bytes());
        soon("the error is gone", || gateway.status()["config_error"].is_null().then_some(()));
    }
    fs::write(home.config_file(), "").unwrap();
    let told = soon("an empty file", || gateway.status()["config_error"].as_str().map(str::to_owned));
    assert!(told.contains("is empty"), "{told}");
    assert!(saves(&gateway, home.at("root/x")));
    replace(&home, good.as_bytes());
    soon("the error is gone", || gateway.status()["config_error"].is_null().then_some(()));
    fs::remove_file(home.config_file()).unwrap();
    soon("the error in status", || gateway.status()["config_error"].as_str().map(str::to_owned));
    assert!(saves(&gateway, home.at("root/x")));
    assert!(gateway.log().contains("stays in force"), "{}", gateway.log());
}

#[test]
fn commands_reach_the_gateway_that_runs_though_the_file_is_not_in_order_by_now() {
    let home = home_with_text();
    let gateway = home.serve();
    // A file that is cut off names no data directory either.
    let data = home.data();
    let reach = |args: &[&str]| home.run(&[args, &["--data-dir", data.to_str().unwrap()]].concat());
    let good = fs::read(home.config_file()).unwrap();
    let mut wrong: Value = serde_json::from_slice(&good).unwrap();
    wrong["read_only_mode"] = json!("yes");
    for bad in [&b"{ \"mcpServers\": ["[..], &serde_json::to_vec(&wrong).unwrap()] {
        replace(&home, bad);
        soon("the error in status", || gateway.status()["config_error"].as_str().map(str::to_owned));
        for args in [
            &["status", "-o", "json"][..],
            &["tools", "list"],
            &["upstream", "list"],
            &["upstream", "restart", "srv"],
            &["activity", "list"],
            &["outputs", "list"],
            &["call", "tool-destructive", "--tool-name", "srv:tool"],
        ] {
            let done = reach(args);
            let (said, told) = (&done.stdout, &done.stderr);
            assert_eq!(done.code, 0, "{args:?}: {said}{told}");
            assert!(told.contains("is not in order, so the gateway that runs goes on"), "{args:?}: {told}");
        }
        let status: Value = serde_json::from_str(&reach(&["status", "-o", "json"]).stdout).unwrap();
        assert_eq!(status["state"], "running");
        assert!(status["config_error"].is_string(), "{status}");
        assert_eq!(reach(&["config", "reload"]).code, 4);
    }
    gateway.stop();
    let calls = home.calls("srv");
    for args in [
        &["status"][..],
        &["tools", "list"],
        &["upstream", "list"],
        &["outputs", "list"],
        &["call", "tool-destructive", "--tool-name", "srv:tool"],
        &["serve", "--stdio"],
    ] {
        let done = home.run(args);
        let told = &done.stderr;
        assert_eq!(done.code, 4, "{args:?}: {told}");
        assert!(told.contains("$.read_only_mode"), "{args:?}: {told}");
    }
    assert_eq!(home.calls("srv"), calls, "nothing runs by a file that is not in order");
}

#[test]
fn a_changed_server_is_started_anew_and_the_others_are_left_alone() {
    let home = testkit::home!()
        .root("root")
        .upstream_with("srv", Script::text("one"), json!({"quarantined": false}))
        .upstream_with("other", Script::text("two"), json!({"quarantined": false}));
    let gateway = home.serve();
    let first: u32 = home.lines("srv", "pids")[0].parse().unwrap();
    for round in 0..5 {
        edit(&home, |c| c["mcpServers"][1]["env"] = json!({"ROUND": round.to_string()}));
        soon("the other server", || (home.lines("other", "pids").len() == round + 2).then_some(()));
    }
    assert_eq!(home.lines("srv", "pids").len(), 1, "the server whose entry did not change");
    edit(&home, |c| c["mcpServers"][0]["env"] = json!({"NEW": "1"}));
    soon("the server with the new environment", || (home.lines("srv", "pids").len() == 2).then_some(()));
    wait_for(|| (!home::alive(first)).then_some(()));
    assert_eq!(gateway.call("srv:tool").send().first_text(), "one");
    let found = gateway.tool("retrieve_tools", r#"{"query":"tool"}"#).first_text();
    assert_eq!(found.matches("\"name\":\"srv:tool\"").count(), 1, "each tool is listed once: {found}");
}

#[test]
fn a_new_or_changed_server_is_held_unless_the_file_says_otherwise() {
    let home = home_with_text();
    let gateway = home.serve();
    let first: u32 = home.lines("srv", "pids")[0].parse().unwrap();
    let more = json!({"name": "late", "command": home.example("scripted_upstream"), "args": [home.at("upstream-late")]});
    fs::create_dir(home.at("upstream-late")).unwrap();
    home.script("late", &Script::text("late"));
    edit(&home, |c| c["mcpServers"].as_array_mut().unwrap().push(more));
    let held = soon("the new server is held", || {
        let status = gateway.status();
        let late = server(&status, "late").clone();
        (late["state"] == "quarantined").then_some(late)
    });
    assert!(held["detail"].as_str().unwrap().contains("\"quarantined\": false"), "{held}");
    assert!(gateway.call("late:tool").send().refusal().contains("quarantined"));
    assert!(home.lines("late", "pids").is_empty(), "a held server is not started");

    edit(&home, |c| c["mcpServers"][0]["env"] = json!({"EVIL": "1"}));
    soon("the changed server is held", || {
        (server(&gateway.status(), "srv")["state"] == "quarantined").then_some(())
    });
    wait_for(|| (!home::alive(first)).then_some(()));
    assert!(gateway.call("srv:tool").send().refusal().contains("quarantined"));
    assert_eq!(home.lines("srv", "pids").len(), 1);

    edit(&home, |c| {
        c["mcpServers"].as_array_mut().unwrap().iter_mut().for_each(|s| s["quarantined"] = json!(false));
    });
    soon("both run", || (gateway.status()["upstream_stats"]["connected_servers"] == 2).then_some(()));
    assert_eq!(gateway.call("late:tool").send().first_text(), "late");
}

#[test]
fn what_is_held_stays_held_over_a_restart() {
    let home = home_with_text();
    drop(home.serve());
    let home = home.upstream("late", Script::text("late"));
    let gateway = home.serve();
    assert_eq!(server(&gateway.status(), "late")["state"], "quarantined");
    assert_eq!(server(&gateway.status(), "srv")["state"], "ready");
    drop(gateway);
    let home = home.set("quarantine_enabled", false);
    let gateway = home.serve();
    assert_eq!(gateway.call("late:tool").send().first_text(), "late");
}

#[test]
fn servers_of_the_first_file_are_the_operators_also_when_it_appears_later() {
    let home = home_with_text();
    home.write_config();
    let text = fs::read(home.config_file()).unwrap();
    let without = {
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        config["mcpServers"] = json!([]);
        serde_json::to_vec(&config).unwrap()
    };
    let gateway = home.serve_as(&without);
    replace(&home, &text);
    soon("the server", || (server(&gateway.status(), "srv")["state"] == "ready").then_some(()));
    assert_eq!(gateway.call("srv:tool").send().first_text(), "hello");
}

#[test]
fn agents_hear_that_the_list_of_tools_changed() {
    let home = home_with_text();
    let gateway = home.serve();
    let session = gateway.endpoint().session("listener");
    let listening = std::thread::spawn(move || session.listen("notifications/tools/list_changed"));
    std::thread::sleep(Duration::from_millis(300));
    fs::create_dir(home.at("second")).unwrap();
    edit(&home, |c| c["tool_output_roots"] = json!([home.at("root"), home.at("second")]));
    let heard = listening.join().unwrap();
    assert!(heard.contains("notifications/tools/list_changed"), "{heard}");
    let menu = gateway.endpoint().rpc("tools/list", "{}").result().to_string();
    assert!(menu.contains(home.at("second").to_str().unwrap()), "{menu}");
}

#[test]
fn search_and_calls_work_at_every_moment_of_a_reload() {
    let home = home_with_text();
    let gateway = home.serve();
    for round in 0..3 {
        edit(&home, |c| c["tools_limit"] = json!(10 + round));
        edit(&home, |c| c["tools_limit"] = json!(20 + round));
        for _ in 0..10 {
            let found = gateway.tool("retrieve_tools", r#"{"query":"scripted"}"#).first_text();
            assert!(found.contains("srv:tool"), "{found}");
            assert_eq!(gateway.call("srv:tool").send().first_text(), "hello");
        }
    }
}

#[test]
fn a_key_that_needs_a_restart_is_told_and_not_obeyed() {
    let home = home_with_text();
    let gateway = home.serve();
    edit(&home, |c| c["listen"] = json!("127.0.0.1:1"));
    soon("status names the key", || {
        gateway.status()["needs_restart"].as_array().unwrap().contains(&json!("listen")).then_some(())
    });
    assert_eq!(gateway.call("srv:tool").send().first_text(), "hello");
    edit(&home, |c| c["listen"] = json!("127.0.0.1:0"));
    soon("nothing waits", || gateway.status()["needs_restart"].as_array().unwrap().is_empty().then_some(()));
}

#[test]
fn sighup_remembers_anew_where_a_root_leads() {
    let home = home_with_text();
    let gateway = home.serve();
    fs::rename(home.at("root"), home.at("moved")).unwrap();
    std::os::unix::fs::symlink(home.at("moved"), home.at("root")).unwrap();
    assert!(gateway.call("srv:tool").save(home.at("root/x")).send().refusal().contains("reload"));
    home::signal(gateway.pid(), "HUP");
    soon("the link is obeyed", || saves(&gateway, home.at("root/x")).then_some(()));
    let path = home.at("moved/x");
    assert_eq!(fs::read_to_string(path).unwrap(), "hello");
}

#[test]
fn what_changed_is_recorded_by_name_and_not_by_value() {
    let home = home_with_text();
    let gateway = home.serve();
    let secret = testkit::secrets::token();
    edit(&home, |c| {
        c["mcpServers"][0]["env"] = json!({"TOKEN": secret});
        c["mcpServers"][0]["quarantined"] = json!(false);
        c["tools_limit"] = json!(7);
    });
    let row = wait_for(|| home.activity(&["--type", "config_change"]).into_iter().next());
    let text = row.to_string();
    assert!(text.contains("tools_limit") && text.contains("mcpServers[srv].env"), "{text}");
    assert!(!text.contains(&secret) && !gateway.log().contains(&secret));
    saved(&gateway.call("srv:tool").save(home.at("root/x")).send(), &home.at("root/x"), b"hello");
}
