//! What may stand at the target: nothing, or with overwrite a regular file.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::common::{home_with_text, is_root, refused_before, saved};

#[test]
fn a_fifo_or_a_socket_is_refused_at_once() {
    let home = home_with_text();
    let gateway = home.serve();
    assert!(Command::new("mkfifo").arg(home.at("root/p")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(home.at("root/s")).unwrap();
    for name in ["root/p", "root/s"] {
        let began = std::time::Instant::now();
        let call = gateway.call("srv:tool").save(home.at(name)).overwrite();
        refused_before(&home, &gateway, call, "save_target_kind");
        assert!(began.elapsed().as_secs() < 20);
        assert!(home.at(name).symlink_metadata().is_ok());
    }
}

#[test]
fn a_directory_and_a_path_through_a_file_are_refused_in_plain_words() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::create_dir(home.at("root/d")).unwrap();
    std::fs::write(home.at("root/file.txt"), "f").unwrap();
    for path in ["root/d", "root/file.txt/x"] {
        let call = gateway.call("srv:tool").save(home.at(path)).overwrite();
        let text = refused_before(&home, &gateway, call, "save_target_kind");
        assert!(text.contains("directory"), "{text}");
    }
}

#[test]
fn a_device_is_refused() {
    let home = home_with_text();
    let gateway = home.serve();
    for path in ["/dev/null", "/dev/full"] {
        refused_before(&home, &gateway, gateway.call("srv:tool").save(path).overwrite(), "save_outside");
    }
    if !is_root("a device node") {
        return;
    }
    let node = home.at("root/c");
    if !Command::new("mknod").arg(&node).args(["c", "1", "3"]).status().unwrap().success() {
        println!("skipped: mknod is not allowed here");
        return;
    }
    refused_before(&home, &gateway, gateway.call("srv:tool").save(&node).overwrite(), "save_target_kind");
}

#[test]
fn a_hard_link_never_changes_the_file_outside() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::write(home.at("outside/victim"), "victim").unwrap();
    std::fs::hard_link(home.at("outside/victim"), home.at("root/h")).unwrap();
    let path = home.at("root/h");
    let reply = gateway.call("srv:tool").save(&path).overwrite().send();
    if !reply.is_error() {
        saved(&reply, &path, b"hello");
        assert_ne!(path.metadata().unwrap().ino(), home.at("outside/victim").metadata().unwrap().ino());
    }
    assert_eq!(std::fs::read_to_string(home.at("outside/victim")).unwrap(), "victim");
}

#[test]
fn a_file_that_exists_is_kept_without_overwrite() {
    let home = home_with_text();
    let gateway = home.serve();
    std::fs::write(home.at("root/x"), "old").unwrap();
    let text =
        refused_before(&home, &gateway, gateway.call("srv:tool").save(home.at("root/x")), "save_exists");
    assert!(text.contains("save_overwrite"), "{text}");
    assert_eq!(std::fs::read_to_string(home.at("root/x")).unwrap(), "old");
}
