//! The environment of a child: a short allow-list of ours, then what its entry names; never the whole of ours.

use std::collections::BTreeMap;
use std::path::Path;

const PROXY: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// The variables for a child of ours, before those of its own entry.
pub fn for_children(
    policy: &config::Environment,
    ours: impl Iterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    let mut child = BTreeMap::new();
    for (name, value) in ours {
        let named = policy.allowed_system_vars.contains(&name) || name.starts_with("LC_");
        if policy.inherit_system_safe && named {
            child.insert(name, value);
        } else if policy.forward_proxy_env && PROXY.contains(&name.as_str()) {
            child.insert(name, without_credentials(&value));
        }
    }
    if policy.enhance_path {
        let path =
            enhanced(child.get("PATH").map_or("", String::as_str), child.get("HOME").map(String::as_str));
        child.insert("PATH".into(), path);
    }
    child.extend(policy.custom_vars.iter().map(|(k, v)| (k.clone(), v.clone())));
    child
}

/// A service manager starts us with a bare PATH; `npx` and `uvx` usually live in one of these.
fn enhanced(path: &str, home: Option<&str>) -> String {
    let mut parts: Vec<String> = path.split(':').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    let homes = home.into_iter().flat_map(|h| {
        [".local/bin", ".cargo/bin", ".bun/bin", ".deno/bin"]
            .map(|d| format!("{}/{d}", h.trim_end_matches('/')))
    });
    let system = ["/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin"].map(str::to_owned);
    for extra in homes.chain(system) {
        if !parts.contains(&extra) && Path::new(&extra).is_dir() {
            parts.push(extra);
        }
    }
    parts.join(":")
}

/// A proxy address may carry a password, which is ours and not the child's.
fn without_credentials(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &value[..scheme + 3], &value[at + 1..]),
        (None, Some(at)) => value[at + 1..].to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> impl Iterator<Item = (String, String)> {
        [
            ("PATH", "/usr/bin"),
            ("HOME", "/home/a"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("MCPPROXY_API_KEY", "y"),
            ("HTTPS_PROXY", "http://user:pass@proxy:3128"),
            ("EXTRA", "1"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
    }

    #[test]
    fn a_child_gets_no_secret_of_ours() {
        let child = for_children(&config::Config::default().environment, ours());
        assert_eq!(child.get("HOME").map(String::as_str), Some("/home/a"));
        assert_eq!(child.get("LC_ALL").map(String::as_str), Some("C"));
        for absent in ["AWS_SECRET_ACCESS_KEY", "MCPPROXY_API_KEY", "HTTPS_PROXY", "EXTRA"] {
            assert!(!child.contains_key(absent), "{absent}");
        }
    }

    #[test]
    fn named_variables_and_proxies_without_their_password_pass_when_asked_for() {
        let mut policy = config::Config::default().environment;
        policy.allowed_system_vars.push("EXTRA".into());
        policy.forward_proxy_env = true;
        let child = for_children(&policy, ours());
        assert_eq!(child.get("EXTRA").map(String::as_str), Some("1"));
        assert_eq!(child.get("HTTPS_PROXY").map(String::as_str), Some("http://proxy:3128"));
    }
}
