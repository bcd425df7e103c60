//! The names under which this gateway answers, and the pages that may call it: pure functions of text.

use std::net::{IpAddr, Ipv6Addr};

/// The `trusted_hosts` of the configuration: names beside localhost and the address of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedHosts(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// `*`
    Any,
    /// `.example.com`: that domain and everything beneath it. Held without the dot.
    Domain(String),
    /// `host` on any port, or on one.
    Host(Host, Option<u16>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(String),
    Ip(IpAddr),
}

impl TrustedHosts {
    /// Understands `host`, `host:port`, `.suffix` and `*`; an entry that is none of these matches nothing.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Self {
        Self(entries.iter().filter_map(|entry| Pattern::parse(entry.as_ref().trim())).collect())
    }

    fn contains(&self, host: &Host, ports: &[u16]) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::Any => true,
            Pattern::Domain(domain) => host.is_in(domain),
            Pattern::Host(known, None) => known == host,
            Pattern::Host(known, Some(port)) => known == host && ports.contains(port),
        })
    }
}

impl Pattern {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::Any);
        }
        if let Some(domain) = entry.strip_prefix('.') {
            return match Host::parse(domain)? {
                Host::Name(domain) => Some(Self::Domain(domain)),
                Host::Ip(_) => None,
            };
        }
        if let Ok(ip) = entry.parse::<IpAddr>() {
            return Some(Self::Host(Host::Ip(ip.to_canonical()), None));
        }
        let (host, port) = split_authority(entry)?;
        Some(Self::Host(host, port))
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let ip: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Ip(IpAddr::from(ip).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(ip) = name.parse::<std::net::Ipv4Addr>() {
            return Some(Self::Ip(ip.into()));
        }
        let plain =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        (plain && !name.is_empty()).then(|| Self::Name(name.to_ascii_lowercase()))
    }

    fn is_in(&self, domain: &str) -> bool {
        match self {
            Self::Name(name) => {
                name.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            Self::Ip(_) => false,
        }
    }
}

/// Whether a `Host` header names us: localhost, a loopback address, the address at which the connection arrived, on any
/// port, or a trusted host.
pub(super) fn host_allowed(header: &str, arrived_at: Option<IpAddr>, trusted: &TrustedHosts) -> bool {
    let Some((host, port)) = split_authority(header) else { return false };
    // Without a port it is that of http, or of https where something in front of us speaks that.
    is_us(&host, port.as_ref().map_or(&[80, 443], std::slice::from_ref), arrived_at, trusted)
}

/// Whether an `Origin` header is an http(s) page of such a host.
pub(super) fn origin_allowed(header: &str, arrived_at: Option<IpAddr>, trusted: &TrustedHosts) -> bool {
    let Some((rest, usual_port)) = split_origin(header) else { return false };
    let Some((host, port)) = split_authority(rest) else { return false };
    is_us(&host, &[port.unwrap_or(usual_port)], arrived_at, trusted)
}

/// The host of a `Host` header, as an entry of `trusted_hosts` would have it.
pub(super) fn host_part(header: &str) -> Option<String> {
    split_authority(header).map(|(host, _)| match host {
        Host::Name(name) => name,
        Host::Ip(ip) => ip.to_string(),
    })
}

/// The host of an `Origin` header, as an entry of `trusted_hosts` would have it.
pub(super) fn origin_host_part(header: &str) -> Option<String> {
    split_origin(header).and_then(|(rest, _)| host_part(rest))
}

fn is_us(host: &Host, ports: &[u16], arrived_at: Option<IpAddr>, trusted: &TrustedHosts) -> bool {
    let ours = match host {
        Host::Name(name) => name == "localhost",
        Host::Ip(ip) => ip.is_loopback() || arrived_at == Some(*ip),
    };
    ours || trusted.contains(host, ports)
}

fn split_origin(header: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = header.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Some((rest, 80)),
        "https" => Some((rest, 443)),
        _ => None,
    }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`; neither a user nor a path.
fn split_authority(text: &str) -> Option<(Host, Option<u16>)> {
    let (host, port) = match text.rfind(':') {
        Some(at) if !text.ends_with(']') => (&text[..at], Some(&text[at + 1..])),
        _ => (text, None),
    };
    let port = match port {
        None | Some("") => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
    };
    Some((Host::parse(host)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 1, 5));

    fn trusted() -> TrustedHosts {
        TrustedHosts::parse(&[
            "mcp.example.com",
            " Proxy.Example:8443",
            ".corp.example",
            "10.0.0.9",
            "fe80::1",
            "http://no",
        ])
    }

    #[test]
    fn our_own_names_and_the_trusted_ones_pass_on_any_port() {
        let good = [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.9.9.9:80",
            "[::1]",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:9",
            "192.168.1.5:8080",
            "192.168.1.5",
            "mcp.example.com",
            "MCP.example.com:1",
            "proxy.example:8443",
            "corp.example",
            "a.b.corp.example:7",
            "10.0.0.9:5",
            "[fe80::1]:5",
        ];
        for host in good {
            assert!(host_allowed(host, Some(LAN), &trusted()), "{host}");
        }
    }

    #[test]
    fn other_names_do_not() {
        let bad = [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evilcorp.example",
            "192.168.1.6",
            "0.0.0.0:8080",
            "[::]:8080",
            "2130706433",
            "127.1",
            "0x7f000001",
            "proxy.example",
            "proxy.example:1",
            "mcp.example.com.evil",
            "user@localhost",
            "localhost/x",
            "localhost:80:80",
            "localhost:x",
            "localhost:-1",
            "localhost:99999",
            "[::1",
            "::1",
            "[::1]x:1",
            "local host",
            "no",
            "http://no",
            "löcalhost",
            ".",
            "[localhost]",
        ];
        for host in bad {
            assert!(!host_allowed(host, Some(LAN), &trusted()), "{host}");
        }
        assert!(!host_allowed("192.168.1.5", None, &trusted()));
    }

    #[test]
    fn a_star_trusts_every_host_that_is_one() {
        let any = TrustedHosts::parse(&["*"]);
        assert!(host_allowed("evil.example:1", None, &any));
        assert!(!host_allowed("user@evil.example", None, &any));
        assert!(origin_allowed("https://evil.example", None, &any));
        assert!(!origin_allowed("null", None, &any));
    }

    #[test]
    fn a_trusted_port_counts_when_the_header_leaves_out_the_usual_one() {
        let trusted = TrustedHosts::parse(&["a.example:443", "b.example:8443"]);
        assert!(host_allowed("a.example", None, &trusted));
        assert!(!host_allowed("b.example", None, &trusted));
        assert!(origin_allowed("https://a.example", None, &trusted));
        assert!(!origin_allowed("http://a.example", None, &trusted));
    }

    #[test]
    fn pages_of_such_hosts_may_call_and_others_may_not() {
        for origin in
            ["http://localhost:3000", "https://127.0.0.1", "HTTP://[::1]:1", "https://mcp.example.com"]
        {
            assert!(origin_allowed(origin, Some(LAN), &trusted()), "{origin}");
        }
        let bad = [
            "null",
            "",
            "http://evil.example",
            "file://",
            "ws://localhost",
            "chrome-extension://abc",
            "localhost",
            "http://localhost/",
            "http://localhost/x",
            "http://user@localhost",
            "http://localhost?x",
            "http://localhost#x",
            "http://localhost http://evil.example",
            "http://",
            "//localhost",
        ];
        for origin in bad {
            assert!(!origin_allowed(origin, Some(LAN), &trusted()), "{origin}");
        }
    }
}
