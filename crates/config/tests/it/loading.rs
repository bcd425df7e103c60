//! Files on disk, the command line and the environment.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use config::{Overrides, Sources, Variables, check_owner, load, owner_uid};
use tempfile::TempDir;

use crate::{lines, with_variables};

struct Home {
    dir: TempDir,
}

impl Home {
    fn with(text: &str) -> Self {
        let home = Self { dir: TempDir::new().unwrap() };
        fs::write(home.file(), text).unwrap();
        mode(&home.file(), 0o600);
        home
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("mcp_config.json")
    }

    fn sources(&self) -> Sources {
        Sources { path: self.file(), ..with_variables(&[]) }
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_is_read_and_kept_as_it_is() {
    let text = "{\n  \"x_note\": 1,\n  \"tools_limit\": 7,\n  \"max_result_size_chars\": 0\n}\n";
    let home = Home::with(text);
    let loaded = load(&home.sources()).unwrap();
    assert!(!loaded.first_run);
    assert_eq!((loaded.config.tools_limit, loaded.config.max_result_size_chars), (7, 0));
    assert_eq!(loaded.document.text(), text);
    assert!(loaded.document.is_explicit("max_result_size_chars"));
    assert_eq!(loaded.warnings.len(), 1, "{}", lines(&loaded.warnings));
    assert_eq!(fs::read_to_string(home.file()).unwrap(), text);
}

#[test]
fn no_file_is_a_first_run_and_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("not").join("there.json");
    let loaded = load(&Sources { path: path.clone(), ..with_variables(&[]) }).unwrap();
    assert!(loaded.first_run && loaded.config.servers.is_empty() && loaded.document.root().is_empty());
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn an_empty_file_means_the_defaults_and_is_told() {
    let loaded = load(&Home::with("").sources()).unwrap();
    assert!(!loaded.first_run);
    assert!(loaded.warnings[0].message.contains("is empty"));
}

#[test]
fn what_is_no_readable_file_is_a_problem() {
    let home = Home::with("{}");
    let problem =
        |path: PathBuf| load(&Sources { path, ..with_variables(&[]) }).unwrap_err().remove(0).message;
    assert!(problem(home.dir.path().to_owned()).contains("not a regular file"));
    let fifo = home.dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(problem(fifo).contains("not a regular file"));
    fs::write(home.file(), b"{\"a\": \"\xff\"}").unwrap();
    assert!(problem(home.file()).contains("UTF-8 at byte 7"));
    fs::write(home.file(), format!("{{\"a\": \"{}\"}}", "x".repeat(17 << 20))).unwrap();
    assert!(problem(home.file()).contains("larger than"));
    let dangling = home.dir.path().join("dangling");
    symlink("/nonexistent/x.json", &dangling).unwrap();
    assert!(problem(dangling).contains("leads nowhere"));
}

#[test]
fn a_file_that_everyone_may_change_is_refused() {
    let home = Home::with("{}");
    mode(&home.file(), 0o602);
    let problems = load(&home.sources()).unwrap_err();
    assert!(
        problems[0].message.contains("by everyone") && problems[0].fix.contains("chmod o-w"),
        "{}",
        lines(&problems)
    );
    mode(&home.file(), 0o620);
    let loaded = load(&home.sources()).unwrap();
    assert!(loaded.warnings[0].message.contains("by the group"), "{}", lines(&loaded.warnings));
}

#[test]
fn a_directory_that_everyone_may_change_is_refused_unless_it_is_sticky() {
    let home = Home::with("{}");
    for (bits, refused, warned) in
        [(0o777, true, false), (0o1777, false, false), (0o770, false, true), (0o755, false, false)]
    {
        mode(home.dir.path(), bits);
        let outcome = check_owner(&home.file(), None);
        assert_eq!(outcome.is_err(), refused, "{bits:o}: {outcome:?}");
        assert_eq!(outcome.is_ok_and(|w| !w.is_empty()), warned, "{bits:o}");
        // A first run is judged as well: whoever may write the directory may put a file there.
        assert_eq!(check_owner(&home.dir.path().join("missing.json"), None).is_err(), refused);
    }
    mode(home.dir.path(), 0o700);
}

#[test]
fn a_link_is_judged_with_its_target() {
    let (home, other) = (Home::with("{}"), Home::with("{}"));
    let link = home.dir.path().join("link.json");
    symlink(other.file(), &link).unwrap();
    assert!(check_owner(&link, None).unwrap().is_empty());
    mode(other.dir.path(), 0o777);
    assert!(check_owner(&link, None).is_err());
    mode(other.dir.path(), 0o700);
    mode(&other.file(), 0o666);
    assert!(check_owner(&link, None).is_err());
}

#[test]
fn a_file_of_another_user_is_refused_unless_that_user_is_named() {
    const STRANGER: u32 = 54_321;
    let home = Home::with("{}");
    if chown(home.file(), Some(STRANGER), None).is_err() {
        println!("skipped: only root can give files away");
        return;
    }
    let problem = check_owner(&home.file(), None).unwrap_err();
    assert!(
        problem.message.contains("uid 54321") && problem.fix.contains("--config-owner 54321"),
        "{problem}"
    );
    assert!(load(&home.sources()).is_err());
    assert!(check_owner(&home.file(), Some(STRANGER)).is_ok());
    assert!(check_owner(&home.file(), Some(STRANGER + 1)).is_err());
    let named = Overrides { config_owner: Some(STRANGER.to_string()), ..Overrides::default() };
    assert!(load(&Sources { overrides: named, ..home.sources() }).is_ok());
    let variables: Variables = [("MCPPROXY_CONFIG_OWNER", "54321"), ("HOME", "/h")].into_iter().collect();
    assert!(load(&Sources { variables, ..home.sources() }).is_ok());

    chown(home.file(), Some(0), None).unwrap();
    chown(home.dir.path(), Some(STRANGER), None).unwrap();
    assert!(check_owner(&home.file(), None).is_err());
    let link = TempDir::new().unwrap();
    let link = link.path().join("l.json");
    symlink(home.file(), &link).unwrap();
    assert!(check_owner(&link, None).is_err());
    chown(home.dir.path(), Some(0), None).unwrap();
    assert!(check_owner(&link, None).is_ok());
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
    assert!(check_owner(&link, None).is_err());
}

#[test]
fn owners_are_named_or_numbered() {
    assert_eq!(owner_uid("root").ok(), Some(0));
    assert_eq!(owner_uid("1000").ok(), Some(1000));
    for owner in ["no-such-user-here", "", "4294967295", "-1"] {
        assert!(owner_uid(owner).is_err(), "{owner}");
    }
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let home = Home::with(
        r#"{"listen": ":1", "api_key": "file", "data_dir": "/file", "logging": {"level": "error"}}"#,
    );
    let file = load(&home.sources()).unwrap().config;
    assert_eq!((file.listen.port, file.data_dir.as_path()), (1, Path::new("/file")));
    assert!(file.api_key.as_ref().unwrap().matches("file"));

    let variables: Variables = [
        ("HOME", "/h"),
        ("MCPPROXY_LISTEN", ":2"),
        ("MCPPROXY_API_KEY", "variable"),
        ("MCPPROXY_DATA", "/old"),
        ("MCPPROXY_DATA_DIR", "/variable"),
        ("MCPPROXY_MAX_CONCURRENT_REQUESTS", "3"),
        ("MCPPROXY_QUEUE_SIZE", "2"),
        ("MCPPROXY_QUEUE_TIMEOUT", "9s"),
    ]
    .into_iter()
    .collect();
    let sources = Sources { variables, ..home.sources() };
    let outside = load(&sources).unwrap().config;
    assert_eq!((outside.listen.port, outside.data_dir.as_path()), (2, Path::new("/variable")));
    assert!(outside.api_key.as_ref().unwrap().matches("variable"));
    let limit = outside.concurrency;
    assert_eq!((limit.max, limit.queue, limit.timeout.as_secs()), (Some(3), 2, 9));

    let overrides = Overrides {
        listen: Some(":3".to_owned()),
        data_dir: Some("/flag".into()),
        log_level: Some("trace".to_owned()),
        require_mcp_auth: true,
        read_only: true,
        ..Overrides::default()
    };
    let flags = load(&Sources { overrides, ..sources }).unwrap().config;
    assert_eq!((flags.listen.port, flags.data_dir.as_path()), (3, Path::new("/flag")));
    assert_eq!((flags.logging.level.as_str(), flags.log_dir.as_path()), ("trace", Path::new("/flag/logs")));
    assert!(flags.require_mcp_auth && flags.read_only_mode);
}

#[test]
fn flags_and_variables_cannot_switch_a_protection_off() {
    let home = Home::with(r#"{"require_mcp_auth": true, "read_only_mode": true, "trusted_hosts": ["a"]}"#);
    let variables: Variables =
        [("HOME", "/h"), ("MCPPROXY_TRUSTED_HOSTS", "evil.example"), ("MCPPROXY_REQUIRE_MCP_AUTH", "false")]
            .into_iter()
            .collect();
    let loaded = load(&Sources { variables, ..home.sources() }).unwrap();
    assert!(loaded.config.require_mcp_auth && loaded.config.read_only_mode);
    assert_eq!(loaded.config.trusted_hosts, ["a"]);
    assert!(
        loaded.warnings.iter().any(|w| w.path == "MCPPROXY_TRUSTED_HOSTS"),
        "{}",
        lines(&loaded.warnings)
    );
}

#[test]
fn what_flags_and_variables_get_wrong_is_named_after_them() {
    let home = Home::with("{}");
    let variables: Variables = [
        ("HOME", "/h"),
        ("MCPPROXY_LISTEN", "nowhere"),
        ("MCPPROXY_MAX_CONCURRENT_REQUESTS", "many"),
        ("MCPPROXY_QUEUE_TIMEOUT", "0s"),
        ("MCPPROXY_TLS_ENABLED", "true"),
    ]
    .into_iter()
    .collect();
    let overrides = Overrides { log_level: Some("loud".to_owned()), ..Overrides::default() };
    let problems = load(&Sources { path: home.file(), overrides, variables }).unwrap_err();
    let paths: Vec<_> = problems.iter().map(|p| p.path.as_str()).collect();
    for right in [
        "MCPPROXY_LISTEN",
        "MCPPROXY_MAX_CONCURRENT_REQUESTS",
        "MCPPROXY_QUEUE_TIMEOUT",
        "MCPPROXY_TLS_ENABLED",
        "--log-level",
    ] {
        assert!(paths.contains(&right), "{right}: {}", lines(&problems));
    }
    assert_eq!(paths.len(), 5, "{}", lines(&problems));
    let overrides = Overrides { listen: Some("0.0.0.0:1".to_owned()), ..Overrides::default() };
    assert_eq!(load(&Sources { overrides, ..home.sources() }).unwrap_err()[0].path, "--listen");
}

#[test]
fn debug_of_an_environment_shows_no_value() {
    let secret = ["se", "cret"].concat();
    let variables: Variables = [("A", secret.clone())].into_iter().collect();
    assert!(!format!("{variables:?}").contains(&secret));
    assert!(!format!("{:?}", with_variables(&[("MCPPROXY_API_KEY", &secret)])).contains(&secret));
}
