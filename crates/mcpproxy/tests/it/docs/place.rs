//! Where the commands of the pages run: a home in which their words mean something, with a gateway or without.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::home::{finish_within, signal};
use testkit::{Action, Gateway, Home, Script, script};

use super::Block;
use crate::save::base64;

/// A home in which the words of the pages mean something: `~`, `/srv`, the servers `fs` and `browser`.
pub struct Place {
    /// The home.
    pub home: Home,
}

impl Place {
    pub fn new() -> Self {
        let listed = |name: &str| {
            format!(
                r#"{{"name":"{name}","description":"{} of the file system","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string"}}}}}},"annotations":{{"readOnlyHint":true,"openWorldHint":false}}}}"#,
                name.replace('_', " ")
            )
        };
        let files = Script::action(Action::Generate(200_000)).tools(vec![
            listed("directory_tree"),
            listed("list_directory"),
            listed("read_text_file"),
            script::annotated("write_file", r#"{"readOnlyHint":false,"destructiveHint":true}"#),
            script::annotated("create_directory", r#"{"readOnlyHint":false,"destructiveHint":false}"#),
        ]);
        let shot = format!(
            r#"{{"content":[{{"type":"image","data":"{}","mimeType":"image/png"}}]}}"#,
            base64(b"PNG")
        );
        let browser = Script::result(&shot).tools(vec![script::tool("screenshot")]);
        let word = json!({"quarantined": false});
        let home =
            testkit::home!().upstream_with("fs", files, word.clone()).upstream_with("browser", browser, word);
        let (dot, srv) = (home.at(".mcpproxy"), home.at("srv/mcp-output"));
        let own = home.at("mcp-output");
        private(&dot);
        for dir in [&srv, &own, &home.at("volume/output")] {
            fs::create_dir_all(dir).unwrap();
        }
        std::os::unix::fs::symlink(&dot, home.data()).unwrap();
        std::os::unix::fs::symlink(home.config_file(), dot.join("mcp_config.json")).unwrap();
        let home = home.set("tool_output_roots", json!([srv, own])).set("data_dir", json!(dot));
        home.write_config();
        Self { home }
    }

    /// A text of a page, in terms of this home.
    pub fn here(&self, text: &str) -> String {
        let home = self.home.path().display();
        let text = text.replace("/srv/", &format!("{home}/srv/")).replace("/home/ann/", &format!("{home}/"));
        text.replace("\"/data", &format!("\"{home}/volume"))
    }

    pub fn shell(&self, script: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_mcpproxy")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(binary).chain(std::env::split_paths(&path))).unwrap();
        let mut shell = self.home.command();
        let environment: Vec<_> =
            shell.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
        shell = Command::new("sh");
        shell.env_clear().envs(environment).env("PATH", path).current_dir(self.home.path());
        shell.arg("-ec").arg(script);
        shell
    }
}

fn private(dir: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(dir).unwrap();
}

/// A place with a running gateway and one saved answer, whose request id stands for `ID`.
pub struct Live {
    /// The place.
    pub place: Place,
    gateway: Gateway,
    id: String,
}

impl Live {
    pub fn new() -> Self {
        let place = Place::new();
        let gateway = place.home.serve();
        let reply = gateway.call("fs:directory_tree").save(place.home.at("mcp-output/tree.json")).send();
        reply.envelope();
        let id = reply.header("x-request-id").unwrap();
        place.home.events("tool_call", 1);
        Self { place, gateway, id }
    }

    /// The script of a page, in terms of this home, its gateway and its saved answer.
    pub fn here(&self, script: &str) -> String {
        let address = self.gateway.endpoint().address;
        let script = self.place.here(script).replace("127.0.0.1:8080", &address);
        let words = script.split_inclusive([' ', '\n']);
        let id =
            |word: &str| if word.trim_end() == "ID" { word.replace("ID", &self.id) } else { word.to_owned() };
        words.map(id).collect()
    }
}

/// Runs a script to its end; `None` if it ended as the page says, else what it said.
pub fn run(place: &Place, block: &Block, script: &str) -> Option<String> {
    let output = finish_within(place.shell(script), Duration::from_secs(60));
    let expected = block.mark.strip_prefix("exit ").map_or(0, |code| code.trim().parse().unwrap());
    (output.code != expected).then(|| {
        let said = format!("stdout: {}\nstderr: {}", output.stdout, output.stderr);
        format!("{}: exit code {} and not {expected}\n{script}\n{said}", block.place, output.code)
    })
}

/// Runs a script where there is no configuration yet.
pub fn run_fresh(block: &Block, script: &str) -> Option<String> {
    let place = Place::new();
    fs::remove_dir_all(place.home.at(".mcpproxy")).unwrap();
    let _ = fs::remove_file(place.home.config_file());
    run(&place, block, &place.here(script))
}

pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs a command that goes on until it is stopped, in a home of its own.
pub fn serve(block: &Block, script: &str) -> Option<String> {
    let place = Place::new();
    let mut shell = place.shell(&format!("exec {}", place.here(script)));
    let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let run = place.home.data().join("run.json");
    while !run.exists() && child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let listens = run.exists();
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let is_fine = listens && output.status.code() == Some(0);
    (!is_fine).then(|| format!("{}: {}, listens: {listens}\n{script}\n{told}", block.place, output.status))
}
