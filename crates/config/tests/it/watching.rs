//! A change of the file is noticed within three seconds, however it is made, and nothing else is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use config::watch::Watch;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(3);
/// Longer than two regular looks with their rest.
const QUIET: Duration = Duration::from_millis(4800);

struct Scene {
    dir: TempDir,
    path: PathBuf,
    /// The text of the file at each call.
    seen: Receiver<Option<String>>,
    _watch: Watch,
}

impl Scene {
    fn over(dir: TempDir, path: PathBuf) -> Self {
        let (sender, seen) = channel();
        let file = path.clone();
        let watch = Watch::start(&path, move || {
            let _ = sender.send(fs::read_to_string(&file).ok());
        });
        Self { dir, path, seen, _watch: watch.unwrap() }
    }

    fn with(text: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("mcp_config.json");
        fs::write(&path, text).unwrap();
        Self::over(dir, path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[track_caller]
    fn sees(&self, right: Option<&str>) {
        let seen = self.seen.recv_timeout(SOON).expect("seen within 3 seconds");
        assert_eq!(seen.as_deref().map(str::trim), right);
    }

    #[track_caller]
    fn sees_nothing_in(&self, time: Duration) {
        assert_eq!(self.seen.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }
}

fn shell(dir: &Path, script: &str) {
    let done = Command::new("sh").arg("-ec").arg(script).current_dir(dir).status().unwrap();
    assert!(done.success(), "{script}");
}

#[test]
fn five_renames_in_a_row_a_vim_and_a_truncate_are_each_seen() {
    let scene = Scene::with("{\"n\":0}");
    // Another program may be missing where the tests run; the way it replaces the file is the point.
    let jq = Command::new("jq").arg("--version").output().is_ok_and(|o| o.status.success());
    for n in 1..=5 {
        let make = if jq {
            "jq -c '.n += 1' mcp_config.json > t".to_owned()
        } else {
            format!("echo '{{\"n\":{n}}}' > t")
        };
        shell(scene.dir.path(), &format!("{make} && mv t mcp_config.json"));
        scene.sees(Some(&format!("{{\"n\":{n}}}")));
    }
    shell(
        scene.dir.path(),
        "mv mcp_config.json mcp_config.json~; echo '{\"n\":6}' > mcp_config.json; rm mcp_config.json~",
    );
    scene.sees(Some("{\"n\":6}"));
    fs::write(&scene.path, "{\"n\":7}").unwrap();
    scene.sees(Some("{\"n\":7}"));
    fs::remove_file(&scene.path).unwrap();
    scene.sees(None);
    fs::write(&scene.path, "{\"n\":8}").unwrap();
    scene.sees(Some("{\"n\":8}"));
    scene.sees_nothing_in(Duration::from_millis(700));
}

#[test]
fn a_file_that_is_deleted_and_comes_back_at_once_is_one_change_or_none() {
    let scene = Scene::with("a");
    fs::remove_file(&scene.path).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    fs::write(&scene.path, "b").unwrap();
    scene.sees(Some("b"));
    // Emptied for a moment, then whole again.
    fs::write(&scene.path, "").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    fs::write(&scene.path, "b").unwrap();
    scene.sees_nothing_in(QUIET);
}

#[test]
fn what_leaves_the_bytes_as_they_are_is_no_change() {
    let scene = Scene::with("same");
    fs::write(&scene.path, "same").unwrap();
    shell(
        scene.dir.path(),
        "cp mcp_config.json t; mv t mcp_config.json; touch mcp_config.json; chmod 640 mcp_config.json",
    );
    for n in 0..50 {
        fs::write(scene.at("mcpproxy.db"), vec![0; n]).unwrap();
    }
    scene.sees_nothing_in(QUIET);
}

#[test]
fn many_writes_in_a_row_are_one_change_and_a_file_without_rest_is_seen_too() {
    let scene = Scene::with("0");
    for n in 1..=20 {
        fs::write(&scene.path, n.to_string()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    scene.sees(Some("20"));
    scene.sees_nothing_in(Duration::from_millis(700));
    let until = std::time::Instant::now() + SOON;
    let mut n = 100;
    while std::time::Instant::now() < until {
        n += 1;
        fs::write(scene.at("t"), n.to_string()).unwrap();
        fs::rename(scene.at("t"), &scene.path).unwrap();
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(scene.seen.try_recv().is_ok(), "seen while it is still being written");
}

#[test]
fn links_are_followed_and_their_swap_is_seen() {
    let dir = TempDir::new().unwrap();
    for (name, text) in [("one", "1"), ("two", "2")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("real.json"), text).unwrap();
    }
    fs::create_dir(dir.path().join("home")).unwrap();
    let path = dir.path().join("home/mcp_config.json");
    symlink("../one/real.json", &path).unwrap();
    let scene = Scene::over(dir, path);
    // The target is replaced where it lies.
    fs::write(scene.at("one/t"), "1b").unwrap();
    fs::rename(scene.at("one/t"), scene.at("one/real.json")).unwrap();
    scene.sees(Some("1b"));
    // The link is swapped, as `ln -sfn` does.
    symlink("../two/real.json", scene.at("home/t")).unwrap();
    fs::rename(scene.at("home/t"), &scene.path).unwrap();
    scene.sees(Some("2"));
    // The new target is watched.
    fs::write(scene.at("two/real.json"), "2b").unwrap();
    scene.sees(Some("2b"));
    // A file takes the place of the link.
    fs::write(scene.at("home/t"), "3").unwrap();
    fs::rename(scene.at("home/t"), &scene.path).unwrap();
    scene.sees(Some("3"));
}

#[test]
fn a_mounted_configuration_whose_directory_link_is_swapped_is_seen() {
    let dir = TempDir::new().unwrap();
    for (name, text) in [("v1", "1"), ("v2", "2")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("mcp_config.json"), text).unwrap();
    }
    symlink("v1", dir.path().join("..data")).unwrap();
    let path = dir.path().join("mcp_config.json");
    symlink("..data/mcp_config.json", &path).unwrap();
    let scene = Scene::over(dir, path);
    symlink("v2", scene.at("..tmp")).unwrap();
    fs::rename(scene.at("..tmp"), scene.at("..data")).unwrap();
    scene.sees(Some("2"));
}

#[test]
fn the_directory_may_come_later_and_be_replaced() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("not/yet/mcp_config.json");
    let scene = Scene::over(dir, path);
    fs::create_dir_all(scene.at("not/yet")).unwrap();
    fs::write(&scene.path, "1").unwrap();
    scene.sees(Some("1"));
    fs::create_dir(scene.at("other")).unwrap();
    fs::write(scene.at("other/mcp_config.json"), "2").unwrap();
    fs::rename(scene.at("not/yet"), scene.at("old")).unwrap();
    fs::rename(scene.at("other"), scene.at("not/yet")).unwrap();
    scene.sees(Some("2"));
    fs::write(&scene.path, "3").unwrap();
    scene.sees(Some("3"));
}

#[test]
fn a_watch_ends_when_it_is_dropped() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("mcp_config.json");
    fs::write(&path, "1").unwrap();
    let Scene { dir: _dir, path, seen, _watch } = Scene::over(dir, path);
    drop(_watch);
    fs::write(&path, "2").unwrap();
    assert_eq!(seen.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "the thread is gone");
}
