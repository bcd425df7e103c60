//! Everything that can refuse a save comes before the upstream: count 0, one blocked record, nothing new on the disk.

use serde_json::json;
use testkit::script::{annotated, text_result};
use testkit::{Action, Script, home::Output};

use crate::common::{files, home_with, home_with_text, is_root, refused_before, wait_for};

#[test]
fn save_arguments_of_a_wrong_kind_are_refused() {
    let home = home_with_text();
    let gateway = home.serve();
    let path = format!(r#""save_to_file":"{}""#, home.at("root/x").display());
    for (member, named) in [
        (r#""save_to_file":5"#.to_owned(), "save_to_file"),
        (r#""save_to_file":true"#.into(), "save_to_file"),
        (r#""save_to_file":["x"]"#.into(), "save_to_file"),
        (r#""save_to_file":{}"#.into(), "save_to_file"),
        (r#""save_to_file":"""#.into(), "save_to_file"),
        (format!(r#"{path},"save_format":"yaml""#), "save_format"),
        (format!(r#"{path},"save_format":"JSON""#), "save_format"),
        (format!(r#"{path},"save_format":"""#), "save_format"),
        (format!(r#"{path},"save_format":1"#), "save_format"),
        (format!(r#"{path},"save_overwrite":"true""#), "save_overwrite"),
        (format!(r#"{path},"save_overwrite":1"#), "save_overwrite"),
        (r#""save_format":"text""#.into(), "save_to_file"),
        (r#""save_overwrite":true"#.into(), "save_to_file"),
        (r#""args":{"save_to_file":"/x"}"#.into(), "beside args"),
    ] {
        for variant in ["call_tool_read", "call_tool_write", "call_tool_destructive"] {
            let call = gateway.call("srv:tool").variant(variant).member(&member);
            let text = refused_before(&home, &gateway, call, "save_arguments");
            assert!(text.contains(named), "{text}");
        }
    }
}

#[test]
fn null_means_not_given() {
    let home = home_with_text();
    let gateway = home.serve();
    let call =
        gateway.call("srv:tool").member(r#""save_to_file":null,"save_format":null,"save_overwrite":null"#);
    assert_eq!(call.send().first_text(), "hello");
}

#[test]
fn without_roots_the_refusal_names_the_line_to_add() {
    for roots in [None, Some(json!([]))] {
        let mut home = testkit::home!().upstream("srv", Script::text("hello"));
        std::fs::create_dir_all(home.at("root")).unwrap();
        if let Some(roots) = roots {
            home = home.set("tool_output_roots", roots);
        }
        let gateway = home.serve();
        let call = gateway.call("srv:tool").save(home.at("root/x"));
        let text = refused_before(&home, &gateway, call, "save_disabled");
        assert!(text.contains(r#""tool_output_roots": ["#), "{text}");
    }
}

#[test]
fn a_call_as_a_task_is_not_saved() {
    let home = home_with_text();
    let gateway = home.serve();
    let call = gateway.call("srv:tool").save(home.at("root/x")).param(r#""task":{"ttl":1000}"#);
    refused_before(&home, &gateway, call, "save_task");
}

#[test]
fn read_only_mode_allows_new_files_only() {
    let home = home_with_text().set("read_only_mode", true);
    let gateway = home.serve();
    let path = home.at("root/x");
    refused_before(&home, &gateway, gateway.call("srv:tool").save(&path).overwrite(), "save_permission");
    assert!(!gateway.call("srv:tool").save(&path).send().is_error());
    let write = gateway.call("srv:tool").variant("call_tool_write").send().refusal();
    assert!(write.contains("read_only_mode"), "{write}");
}

#[test]
fn paths_outside_get_one_message_that_names_the_roots() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::write(home.at("outside/there"), "x").unwrap();
    let mut texts = Vec::new();
    for path in
        [home.at("outside/there"), home.at("outside/not-there"), home.at("rootx/x"), "/etc/passwd".into()]
    {
        let shown = path.display().to_string();
        let text = refused_before(&home, &gateway, gateway.call("srv:tool").save(&path), "save_outside");
        assert!(text.contains(home.at("root").to_str().unwrap()), "{text}");
        let without_id = text.split(" (request id").next().unwrap().replace(&shown, "PATH");
        texts.push(without_id);
    }
    assert!(texts.iter().all(|t| *t == texts[0]), "{texts:#?}");
}

#[test]
fn a_directory_on_a_read_only_mount_is_refused_before_a_destructive_tool_runs() {
    if !is_root("a read-only mount") {
        return;
    }
    let home = home_with(Script::text("x").tools(vec![annotated("tool", r#"{"destructiveHint":true}"#)]));
    let root = home.at("root");
    let Some(_mount) = Mount::bind_read_only(&root) else { return };
    let gateway = home.serve();
    let call = gateway.call("srv:tool").variant("call_tool_destructive").save(root.join("x"));
    let text = refused_before(&home, &gateway, call, "save_read_only");
    assert!(text.contains("read-only"), "{text}");
}

#[test]
fn too_little_free_space_is_refused() {
    if !is_root("a small tmpfs") {
        return;
    }
    let home = home_with_text();
    let root = home.at("root");
    let Some(_mount) = Mount::tmpfs(&root, "size=1m,mode=700") else { return };
    let gateway = home.serve();
    let text = refused_before(&home, &gateway, gateway.call("srv:tool").save(root.join("x")), "save_space");
    assert!(text.contains("tool_output_min_free_bytes"), "{text}");
}

#[test]
fn a_full_disk_fails_the_save_names_the_cause_and_leaves_the_old_file() {
    if !is_root("a small tmpfs") {
        return;
    }
    let home = crate::common::home(Action::Generate(5 << 20)).set("tool_output_min_free_bytes", 0);
    let root = home.at("root");
    let Some(_mount) = Mount::tmpfs(&root, "size=1m,mode=700") else { return };
    std::fs::write(root.join("x"), "old").unwrap();
    let gateway = home.serve();
    let call = gateway.call("srv:tool").save(root.join("x")).overwrite();
    let text = crate::common::failed_after(&home, call, "save_space");
    assert!(text.contains("space"), "{text}");
    assert_eq!(std::fs::read_to_string(root.join("x")).unwrap(), "old");
}

#[test]
fn the_total_of_saved_files_is_bounded_and_files_that_are_gone_do_not_count() {
    let home = crate::common::home(Action::Result(text_result(&"x".repeat(600))))
        .set("tool_output_max_total_bytes", 1000);
    let gateway = home.serve();
    let save = |name: &str| gateway.call("srv:tool").save(home.at(&format!("root/{name}")));
    assert!(!save("one").send().is_error());
    assert!(!save("two").send().is_error(), "600 of 1000 bytes are used, so one more may begin");
    wait_for(|| (home.events("tool_call", 2).len() == 2).then_some(()));
    let text = refused_before(&home, &gateway, save("three"), "save_total");
    assert!(text.contains("tool_output_max_total_bytes"), "{text}");
    std::fs::remove_file(home.at("root/one")).unwrap();
    assert!(!save("four").send().is_error());
}

#[test]
fn a_second_call_for_a_target_that_is_being_written_is_refused() {
    let home = crate::common::home(Action::After(1500, Box::new(Action::Result(text_result("slow")))));
    let gateway = home.serve();
    let path = home.at("root/x");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.call("srv:tool").save(&path).send());
        wait_for(|| (home.calls("srv") == 1).then_some(()));
        let text = gateway.call("srv:tool").save(&path).send().refusal();
        assert!(text.contains("being written by another call"), "{text}");
        assert_eq!(home.calls("srv"), 1);
        assert!(!first.join().unwrap().is_error());
    });
}

#[test]
fn the_command_line_refuses_bad_pairs_before_the_tool_runs() {
    let home = home_with_text();
    let gateway = home.serve();
    let call = |verb: &str, more: &[&str]| -> Output {
        let mut args = vec!["call", verb, "--tool-name", "srv:tool"];
        args.extend_from_slice(more);
        home.run(&args)
    };
    let before = files(&home);
    for verb in ["tool-read", "tool-write", "tool-destructive"] {
        for more in [
            &["--save-format", "json"][..],
            &["--save-overwrite"],
            &["--save-to-file", ""],
            &["--save-to-file", "rel.txt"],
            &["--save-to-file", "/etc/x"],
        ] {
            let output = call(verb, more);
            assert_ne!(output.code, 0, "{more:?}");
            assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{more:?}: {output:?}");
        }
    }
    assert_eq!(home.calls("srv"), 0);
    assert_eq!(files(&home), before);
    let good = call("tool-read", &["--save-to-file", home.at("root/ok.txt").to_str().unwrap()]);
    assert_eq!(good.code, 0, "{}", good.stderr);
    let envelope: serde_json::Value = serde_json::from_str(&good.stdout).unwrap();
    assert_eq!(envelope["bytes"], 5);
    drop(gateway);
}

/// A mount that goes with the test.
pub struct Mount(std::path::PathBuf);

impl Mount {
    pub fn tmpfs(at: &std::path::Path, options: &str) -> Option<Self> {
        Self::at(&["-t", "tmpfs", "-o", options, "tmpfs"], at)
    }

    fn bind_read_only(at: &std::path::Path) -> Option<Self> {
        let mount = Self::at(&["--bind", at.to_str().unwrap()], at)?;
        Self::at(&["-o", "remount,bind,ro"], at).map(std::mem::forget)?;
        Some(mount)
    }

    fn at(args: &[&str], at: &std::path::Path) -> Option<Self> {
        let status = std::process::Command::new("mount").args(args).arg(at).status();
        if status.is_ok_and(|s| s.success()) {
            return Some(Self(at.to_owned()));
        }
        println!("skipped: mounting is not allowed here");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
