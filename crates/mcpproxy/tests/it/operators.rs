//! What an operator can set about saved files: modes, owners, directories whose modes are made up, paths of a container.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use serde_json::json;

use crate::common::{home_with_text, is_root, refused_before, saved};

const NOBODY: u32 = 65534;

#[test]
fn the_file_mode_goes_for_files_and_the_directories_made_beneath_the_root() {
    let home = home_with_text().set("tool_output_file_mode", "0640");
    let gateway = home.serve();
    let path = home.at("root/a/b/x");
    saved(&gateway.call("srv:tool").save(&path).send(), &path, b"hello");
    let mode = |p: &str| fs::metadata(home.at(p)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("root/a/b/x"), mode("root/a/b"), mode("root/a"), mode("root")),
        (0o640, 0o750, 0o750, 0o700)
    );
}

#[test]
fn a_gateway_in_a_container_speaks_of_paths_as_the_agent_sees_them() {
    let home = home_with_text();
    let home = {
        let root = home.at("root").display().to_string();
        home.set("tool_output_path_map", json!({root: "/workspace/output"}))
    };
    let gateway = home.serve();
    let reply = gateway.call("srv:tool").save("/workspace/output/a/x.txt").send();
    assert_eq!(reply.envelope()["saved_to"], "/workspace/output/a/x.txt");
    assert_eq!(fs::read_to_string(home.at("root/a/x.txt")).unwrap(), "hello");
    // The path inside is understood as well, and answered as the agent sees it.
    let inside = gateway.call("srv:tool").save(home.at("root/y.txt")).send();
    assert_eq!(inside.envelope()["saved_to"], "/workspace/output/y.txt");
    let menu = gateway.endpoint().rpc("tools/list", "{}").result().to_string();
    assert!(menu.contains("/workspace/output"), "{menu}");
    refused_before(&home, &gateway, gateway.call("srv:tool").save("/workspace/outputx/z"), "save_outside");
}

#[test]
fn a_directory_that_is_everybodys_is_refused_until_it_is_named_as_trusted() {
    if !is_root("a directory of another user") {
        return;
    }
    let home = home_with_text();
    let root = home.at("root");
    fs::set_permissions(&root, Permissions::from_mode(0o777)).unwrap();
    chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
    let gateway = home.serve();
    let call = gateway.call("srv:tool").save(root.join("x"));
    let text = refused_before(&home, &gateway, call, "save_root_untrusted");
    assert!(text.contains("tool_output_trusted"), "the refusal says what would allow it: {text}");
    drop(gateway);
    let home = home.set("tool_output_trusted_directories", json!([root]));
    let gateway = home.serve();
    saved(&gateway.call("srv:tool").save(root.join("x")).send(), &root.join("x"), b"hello");
}

#[test]
fn a_daemon_as_root_saves_into_a_users_directory_with_the_users_identity() {
    if !is_root("a daemon as root") {
        return;
    }
    let home = home_with_text().set("tool_output_trusted_owners", json!(["nobody"]));
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let root = home.at("root");
    chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
    let gateway = home.serve();
    let path = root.join("a/x");
    saved(&gateway.call("srv:tool").save(&path).send(), &path, b"hello");
    for made in [&path, &root.join("a")] {
        assert_eq!(made.metadata().unwrap().uid(), NOBODY, "{} belongs to the owner", made.display());
    }
    // What the owner could not do is not done, although the daemon could.
    fs::create_dir(root.join("closed")).unwrap();
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).unwrap();
    let text = gateway.call("srv:tool").save(root.join("closed/x")).send().refusal();
    assert!(text.starts_with("save_to_file: "), "{text}");
    assert!(!root.join("closed/x").exists());
}

#[test]
fn an_owner_that_is_not_named_is_refused_and_an_unknown_name_ends_the_start() {
    if !is_root("a directory of another user") {
        return;
    }
    let home = home_with_text();
    chown(home.at("root"), Some(NOBODY), Some(NOBODY)).unwrap();
    let gateway = home.serve();
    let call = gateway.call("srv:tool").save(home.at("root/x"));
    let text = refused_before(&home, &gateway, call, "save_root_untrusted");
    assert!(text.contains("tool_output_trusted_owners"), "{text}");
    drop(gateway);
    let home = home.set("tool_output_trusted_owners", json!(["no-such-user-here"]));
    let output = home.run(&["serve"]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("no-such-user-here"), "{}", output.stderr);
}
