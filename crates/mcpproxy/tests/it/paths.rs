//! Paths that must not lead out of a root, whatever they spell.

use std::os::unix::fs::symlink;

use crate::common::{home_with_text, is_root, refused_before, saved};

#[test]
fn a_sibling_with_a_longer_name_is_outside() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::create_dir(home.at("root-evil")).unwrap();
    for path in ["root-evil/x.txt", "rootx"] {
        refused_before(&home, &gateway, gateway.call("srv:tool").save(home.at(path)), "save_outside");
    }
}

#[test]
fn a_symlink_inside_the_root_is_not_followed() {
    let home = home_with_text();
    let gateway = home.serve();
    symlink(home.at("outside"), home.at("root/link")).unwrap();
    symlink(home.at("outside/new.txt"), home.at("root/dangling")).unwrap();
    std::fs::write(home.at("root/real.txt"), "old").unwrap();
    symlink("real.txt", home.at("root/inside")).unwrap();
    for path in
        ["root/link/x.txt", "root/dangling", "root/inside", "root/link", "root/link/.", "root/dangling/"]
    {
        for overwrite in [false, true] {
            let call = gateway.call("srv:tool").save(home.at(path));
            let call = if overwrite { call.overwrite() } else { call };
            let reply = call.send();
            assert!(reply.refusal().starts_with("save_to_file: "), "{path}");
        }
    }
    assert_eq!(home.calls("srv"), 0);
    assert_eq!(std::fs::read_dir(home.at("outside")).unwrap().count(), 0);
    assert_eq!(std::fs::read_to_string(home.at("root/real.txt")).unwrap(), "old");
}

#[test]
fn dot_dot_is_refused_and_leaves_nothing_behind() {
    let home = home_with_text();
    let gateway = home.serve();
    let root = home.at("root").display().to_string();
    for path in [
        format!("{root}/../outside/x.txt"),
        format!("{root}/a/../../outside/x"),
        format!("{root}/./../outside/x"),
        format!("{root}/../root/../outside/x"),
        format!("{root}/a/../x"),
    ] {
        refused_before(&home, &gateway, gateway.call("srv:tool").save(path), "save_path");
    }
}

#[test]
fn a_target_must_name_a_file() {
    let home = home_with_text();
    let gateway = home.serve();
    let root = home.at("root").display().to_string();
    for path in
        [root.clone(), format!("{root}/"), format!("{root}/."), format!("{root}//"), format!("{root}/new/")]
    {
        let reply = gateway.call("srv:tool").save(&path).send();
        assert!(reply.refusal().starts_with("save_to_file: "), "{path}");
    }
    for path in ["\"\"", "\"   \""] {
        let text = gateway.call("srv:tool").member(&format!(r#""save_to_file":{path}"#)).send().refusal();
        assert!(text.contains("absolute path"), "{text}");
    }
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn only_absolute_paths_and_no_expansion() {
    let home = home_with_text();
    let gateway = home.serve();
    for path in ["out/x.txt", "./x", "~/x", "$HOME/x", "${R}/x", "file:///tmp/x", "root/x"] {
        let text = refused_before(&home, &gateway, gateway.call("srv:tool").save(path), "save_path");
        assert!(text.contains("absolute"), "{text}");
    }
}

#[test]
fn control_and_invisible_characters_are_refused_and_not_echoed_raw() {
    let home = home_with_text();
    let gateway = home.serve();
    let root = home.at("root").display().to_string();
    for bad in [
        "ok\\u0000/../x",
        "a.txt\\u0000.png",
        "a\\u001b]0;pwn\\u0007\\nSAVED",
        "a\\u202eb",
        "a\\u200bb",
        "a\\u2028b",
        "a\\u0085b",
        "a\\u007f",
    ] {
        let call = gateway.call("srv:tool").member(&format!(r#""save_to_file":"{root}/{bad}""#));
        let text = refused_before(&home, &gateway, call, "save_path");
        assert!(!text.chars().any(|c| c.is_control()), "{text:?}");
    }
}

#[test]
fn hidden_names_are_refused_unless_allowed() {
    let home = home_with_text();
    let gateway = home.serve();
    for path in ["root/.bashrc", "root/.git/hooks/post-commit", "root/a/.x/y"] {
        let text = refused_before(&home, &gateway, gateway.call("srv:tool").save(home.at(path)), "save_path");
        assert!(text.contains("tool_output_allow_hidden"), "{text}");
    }
    drop(gateway);
    let home = home.set("tool_output_allow_hidden", true);
    let gateway = home.serve();
    let path = home.at("root/.config/x");
    saved(&gateway.call("srv:tool").save(&path).send(), &path, b"hello");
    let temporary = home.at("root/.mcpproxy-0123456789abcdef0123456789abcdef.tmp");
    gateway.call("srv:tool").save(temporary).send().refusal();
}

#[test]
fn names_are_taken_as_they_are() {
    let home = home_with_text();
    let gateway = home.serve();
    for name in ["A:A.txt", "NUL", "con.txt", "%2e%2e%2fx", "a b\\c", "ü€😀", "-rf", "a..b", "...x"] {
        if name.starts_with('.') {
            continue;
        }
        let path = home.at("root").join(name);
        saved(&gateway.call("srv:tool").save(&path).send(), &path, b"hello");
    }
}

#[test]
fn a_resolution_that_gives_up_is_a_refusal() {
    let home = home_with_text();
    let gateway = home.serve();
    symlink("b", home.at("root/a")).unwrap();
    symlink("a", home.at("root/b")).unwrap();
    let long = format!("{}/x", home.at("root").display()) + &"/y".repeat(2100);
    for path in [home.at("root/a/x"), home.at("root").join("n".repeat(256)), long.into()] {
        let text = gateway.call("srv:tool").save(&path).send().refusal();
        assert!(text.starts_with("save_to_file: "), "{text}");
    }
    let deep = home.at("root").join(["d"; 33].join("/")).join("x");
    gateway.call("srv:tool").save(deep).send().refusal();
    assert_eq!(home.calls("srv"), 0);
}

#[test]
fn a_root_with_a_trailing_separator_is_the_same_root() {
    for spelled in ["root/", "/./root"] {
        let home = home_with_text();
        let root = format!("{}/{}", home.path().display(), spelled.trim_start_matches('/'));
        let home = home.set("tool_output_roots", serde_json::json!([root]));
        let gateway = home.serve();
        let path = home.at("root/x.txt");
        saved(&gateway.call("srv:tool").save(&path).send(), &path, b"hello");
        refused_before(&home, &gateway, gateway.call("srv:tool").save(home.at("rootx/x")), "save_outside");
    }
}

#[test]
fn roots_that_overlap_or_may_not_be_roots_end_the_start_with_code_4() {
    let base = home_with_text();
    let root = base.at("root").display().to_string();
    for (roots, named) in [
        (vec![root.clone(), format!("{root}/sub")], "root/sub"),
        (vec![root.clone(), format!("{root}/")], "root"),
        (vec![root.clone(), format!("{root}/x/../../root")], ".."),
        (vec!["relative".into()], "relative"),
        (vec!["/".into()], "/"),
        (vec!["/etc/mcp".into()], "/etc"),
        (vec!["/proc/self".into()], "/proc"),
        (vec![base.path().display().to_string()], "configuration"),
        (vec![base.data().join("out").display().to_string()], "data"),
        (vec!["/root".into()], "home"),
        (vec!["/home/somebody".into()], "home"),
    ] {
        let home = home_with_text().set("tool_output_roots", serde_json::json!([root.clone()]));
        let roots: Vec<String> = roots
            .iter()
            .map(|r| r.replace(base.path().to_str().unwrap(), home.path().to_str().unwrap()))
            .collect();
        let home = home.set("tool_output_roots", serde_json::json!(roots));
        let output = home.run(&["serve"]);
        assert_eq!(output.code, 4, "{roots:?}: {}", output.stderr);
        assert!(output.stderr.contains(named), "{roots:?}: {}", output.stderr);
    }
}

#[test]
fn a_root_of_another_user_is_refused_and_the_message_names_it() {
    if !is_root("a directory of another user") {
        return;
    }
    let home = home_with_text();
    let gateway = home.serve();
    std::os::unix::fs::chown(home.at("root"), Some(65534), Some(65534)).unwrap();
    let call = gateway.call("srv:tool").save(home.at("root/x"));
    let text = refused_before(&home, &gateway, call, "save_root_untrusted");
    assert!(text.contains(home.at("root").to_str().unwrap()), "{text}");
}

#[test]
fn a_root_that_became_a_symlink_is_refused() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::rename(home.at("root"), home.at("gone")).unwrap();
    symlink(home.at("outside"), home.at("root")).unwrap();
    let text = gateway.call("srv:tool").save(home.at("root/x.txt")).send().refusal();
    assert!(text.starts_with("save_to_file: "), "{text}");
    assert_eq!(std::fs::read_dir(home.at("outside")).unwrap().count(), 0);
    assert_eq!(home.calls("srv"), 0);
}
