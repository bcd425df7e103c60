//! A temporary home: configuration, roots, upstreams, and the gateway's binary run in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{CallBuilder, Endpoint};
use crate::{HttpUpstream, Reply, Script};

/// How long a gateway may take to become ready in a test, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A temporary home and what is configured in it.
pub struct Home {
    binary: PathBuf,
    dir: tempfile::TempDir,
    config: Value,
    args: Vec<String>,
    environment: BTreeMap<String, String>,
    written: Mutex<Option<Value>>,
}

/// What a run of the command line printed.
#[derive(Debug)]
pub struct Output {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Home {
    /// A home for this binary of the gateway.
    pub fn new(binary: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("mcpproxy-test-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let data = dir.path().join("data");
        let config = json!({
            "listen": "127.0.0.1:0",
            "data_dir": data,
            "mcpServers": [],
        });
        Self {
            binary: binary.into(),
            dir,
            config,
            args: Vec::new(),
            environment: BTreeMap::new(),
            written: Mutex::new(None),
        }
    }

    /// The home's own directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The gateway's data directory.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.path().join("mcp_config.json")
    }

    /// A path inside the home.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a directory, mode 0700, and names it as a root for saved answers.
    #[must_use]
    pub fn root(self, name: &str) -> Self {
        let path = self.at(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let mut roots = self.config.get("tool_output_roots").cloned().unwrap_or_else(|| json!([]));
        roots.as_array_mut().unwrap().push(json!(path));
        self.set("tool_output_roots", roots)
    }

    /// Sets a key of the configuration.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config[key] = value.into();
        self
    }

    /// A variable for every run of the binary.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// An argument after `serve`.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.into());
        self
    }

    /// A scripted stdio upstream.
    #[must_use]
    pub fn upstream(self, name: &str, script: Script) -> Self {
        self.upstream_with(name, script, json!({}))
    }

    /// A scripted stdio upstream with further keys in its entry.
    #[must_use]
    pub fn upstream_with(self, name: &str, script: Script, extra: Value) -> Self {
        let dir = self.at(&format!("upstream-{name}"));
        fs::create_dir_all(&dir).unwrap();
        let entry = json!({"name": name, "command": self.example("scripted_upstream"), "args": [dir]});
        let home = self.server(entry, extra);
        home.script(name, &script);
        home
    }

    /// A scripted HTTP upstream.
    #[must_use]
    pub fn http_upstream(self, name: &str, upstream: &HttpUpstream) -> Self {
        self.server(json!({"name": name, "url": upstream.url()}), json!({}))
    }

    /// Any entry of `mcpServers`.
    #[must_use]
    pub fn server(mut self, mut entry: Value, extra: Value) -> Self {
        for (key, value) in extra.as_object().unwrap() {
            entry[key] = value.clone();
        }
        self.config["mcpServers"].as_array_mut().unwrap().push(entry);
        self
    }

    /// Changes the script of a stdio upstream, whole or not at all.
    pub fn script(&self, name: &str, script: &Script) {
        let dir = self.at(&format!("upstream-{name}"));
        fs::write(dir.join("script.new"), serde_json::to_vec(script).unwrap()).unwrap();
        fs::rename(dir.join("script.new"), dir.join("script.json")).unwrap();
    }

    /// Tool calls that a stdio upstream has seen.
    pub fn calls(&self, name: &str) -> usize {
        self.lines(name, "calls").len()
    }

    /// Lines of one of a stdio upstream's notes: `calls` and their raw `ids`, `pids`, `cancelled`, `methods`,
    /// `grandchild`.
    pub fn lines(&self, name: &str, what: &str) -> Vec<String> {
        let file = self.at(&format!("upstream-{name}")).join(what);
        fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// An example program built beside the binary.
    pub fn example(&self, name: &str) -> PathBuf {
        let path = self.binary.parent().unwrap().join("examples").join(name);
        assert!(path.exists(), "{} is missing: run the tests of the whole crate", path.display());
        path
    }

    /// Writes the configuration file.
    pub fn write_config(&self) {
        let mut written = self.written.lock().unwrap();
        // What a test changed in the file itself stays until the test changes the home.
        if written.as_ref() != Some(&self.config) {
            fs::write(self.config_file(), serde_json::to_vec_pretty(&self.config).unwrap()).unwrap();
            *written = Some(self.config.clone());
        }
    }

    /// A command of the binary, with the home's configuration and nothing of the outside.
    pub fn command(&self) -> Command {
        self.write_config();
        let mut command = Command::new(&self.binary);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .envs(&self.environment)
            .current_dir(self.path());
        command
    }

    /// Runs a command line to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        let config = self.config_file();
        let mut command = self.command();
        command.args(args).arg("--config").arg(config).stdin(Stdio::null());
        finish(command)
    }

    /// Runs `serve` where it must end by itself.
    pub fn serve_to_its_end(&self) -> Output {
        let mut command = self.command();
        command.arg("serve").arg("--config").arg(self.config_file()).args(&self.args);
        finish_within(command, PATIENCE)
    }

    /// Starts `serve` and waits until it is ready and its servers have settled.
    pub fn serve(&self) -> Gateway {
        let mut gateway = self.start();
        gateway.wait_until("/readyz");
        gateway
    }

    /// Starts `serve` on this configuration file, and waits until it is ready. What the test writes afterwards stays.
    pub fn serve_as(&self, config: &[u8]) -> Gateway {
        self.write_config();
        fs::write(self.config_file(), config).unwrap();
        self.serve()
    }

    /// Starts `serve` and waits until it listens; its servers may not be connected yet.
    pub fn serve_cold(&self) -> Gateway {
        let mut gateway = self.start();
        gateway.wait_until("/healthz");
        gateway
    }

    fn start(&self) -> Gateway {
        let mut command = self.command();
        command.arg("serve").arg("--config").arg(self.config_file()).args(&self.args);
        let log = fs::File::create(self.at("serve.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        Gateway { child, endpoint: None, home: self.path().to_owned(), data: self.data() }
    }

    /// The API key that the gateway made.
    pub fn api_key(&self) -> String {
        fs::read_to_string(self.data().join("api_key")).unwrap().trim().to_owned()
    }

    /// Events of the record, newest first, by the command line.
    pub fn activity(&self, filters: &[&str]) -> Vec<Value> {
        let mut args = vec!["activity", "list", "-o", "json"];
        args.extend_from_slice(filters);
        let output = self.run(&args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        value["activities"].as_array().unwrap().clone()
    }

    /// Waits until the record has this many rows of a type (rows are written just after the reply), and returns them.
    pub fn events(&self, kind: &str, count: usize) -> Vec<Value> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let rows = self.activity(&["--type", kind, "-n", "1000"]);
            if rows.len() >= count || Instant::now() > until {
                assert_eq!(rows.len(), count, "{kind}: {rows:#?}");
                return rows;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Output {
    Output::of(&command.output().unwrap())
}

/// Runs a command that must end by itself within `patience`.
pub fn finish_within(mut command: Command, patience: Duration) -> Output {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = pipes.spawn().unwrap();
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(patience) else {
        signal(pid, "KILL");
        panic!("{command:?} did not end within {patience:?}");
    };
    Output::of(&output.unwrap())
}

impl Output {
    fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A running gateway. It is stopped when the test lets go of it.
pub struct Gateway {
    child: Child,
    endpoint: Option<Endpoint>,
    home: PathBuf,
    data: PathBuf,
}

impl Gateway {
    fn wait_until(&mut self, route: &str) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the gateway ended with {status}: {}", self.log());
            }
            if let Some(address) = self.address() {
                let endpoint = Endpoint { address, headers: Vec::new() };
                let ready = endpoint.http("GET", route, &[], b"");
                self.endpoint = Some(endpoint);
                if ready.status == 200 {
                    return;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the gateway is not ready: {}", self.log());
    }

    fn address(&self) -> Option<String> {
        let run: Value = serde_json::from_slice(&fs::read(self.data.join("run.json")).ok()?).ok()?;
        (run["pid"] == self.child.id()).then(|| run["listen"].as_str().map(str::to_owned))?
    }

    /// Where it listens.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone().unwrap()
    }

    /// A `call_tool_read` of `server:tool`.
    pub fn call(&self, tool: &str) -> CallBuilder {
        CallBuilder::new(self.endpoint(), tool)
    }

    /// One call of one of its own tools.
    pub fn tool(&self, tool: &str, arguments: &str) -> Reply {
        self.endpoint().tool(tool, arguments)
    }

    /// What `GET /api/v1/status` says.
    pub fn status(&self) -> Value {
        let key = fs::read_to_string(self.data.join("api_key")).unwrap();
        let reply = self.endpoint().http("GET", "/api/v1/status", &[("x-api-key", key.trim())], b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        serde_json::from_slice::<Value>(&reply.body).unwrap()["data"].take()
    }

    /// What `GET /api/v1/status` says of one server.
    pub fn server(&self, name: &str) -> Value {
        let status = self.status();
        let servers = status["servers"].as_array().unwrap();
        servers.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name} in {status}")).clone()
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.join("serve.log")).unwrap_or_default()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory now, in bytes.
    pub fn resident(&self) -> u64 {
        status_kb(self.pid(), "VmRSS:") * 1024
    }

    /// Highest resident memory so far, in bytes.
    pub fn peak(&self) -> u64 {
        status_kb(self.pid(), "VmHWM:") * 1024
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Ends it with SIGTERM and waits; returns the exit code.
    pub fn stop(mut self) -> Option<i32> {
        signal(self.pid(), "TERM");
        self.wait(Duration::from_secs(20))
    }

    /// Ends it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait(&mut self, patience: Duration) -> Option<i32> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the gateway did not end: {}", self.log());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(self.pid(), "TERM");
            let until = Instant::now() + Duration::from_secs(15);
            while self.child.try_wait().unwrap().is_none() {
                if Instant::now() > until {
                    let _ = self.child.kill();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Whether a process is alive (a zombie is not).
pub fn alive(pid: u32) -> bool {
    let mut stat = String::new();
    fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut f| f.read_to_string(&mut stat)).is_ok()
        && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// Waits; for a bound that is itself what is tested.
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Processes whose parent is this one.
pub fn children(parent: u32) -> Vec<u32> {
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent_of = |stat: String| stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok();
    let all = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| stat(*pid).and_then(parent_of) == Some(parent)).collect()
}

/// Sends a signal by name to a process that the test started.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
}

fn status_kb(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
