//! The address to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Host and port of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// An IP address without brackets, or a host name.
    pub host: String,
    /// The port; 0 lets the system choose one.
    pub port: u16,
}

impl Listen {
    /// Reads `host:port`, `[ipv6]:port` or `:port`; an empty host is 127.0.0.1.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, port) = split(text)?;
        let port = port.parse::<u16>().ok().filter(|_| port.bytes().all(|b| b.is_ascii_digit()));
        let port = port.ok_or("has a port that is not a number from 0 to 65535")?;
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Self { host: host.to_owned(), port })
    }

    /// True if only programs on this machine can connect.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// Host and port, the host without brackets and known to be an address or a name.
fn split(text: &str) -> Result<(&str, &str), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, tail) = rest.split_once(']').ok_or("has a bracket that is not closed")?;
        let port = tail.strip_prefix(':').ok_or("has no port")?;
        host.parse::<Ipv6Addr>().map_err(|_| "has something in brackets that is not an IPv6 address")?;
        return Ok((host, port));
    }
    let (host, port) = text.rsplit_once(':').ok_or("has no port")?;
    if host.contains(':') {
        return Err("has an IPv6 address without brackets");
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-' || b == b'_') {
        return Err("has a host that is neither an address nor a name");
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        let cases = [
            ("127.0.0.1:8080", "127.0.0.1", 8080, true),
            (":8080", "127.0.0.1", 8080, true),
            ("[::1]:8080", "::1", 8080, true),
            ("[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, true),
            ("localhost:8080", "localhost", 8080, true),
            ("LOCALHOST:0", "LOCALHOST", 0, true),
            ("127.9.9.9:65535", "127.9.9.9", 65535, true),
            ("0.0.0.0:8080", "0.0.0.0", 8080, false),
            ("[::]:8080", "::", 8080, false),
            ("192.168.1.4:1", "192.168.1.4", 1, false),
            ("box.example:1", "box.example", 1, false),
            ("127.0.0.1.example:1", "127.0.0.1.example", 1, false),
        ];
        for (text, host, port, loopback) in cases {
            let listen = Listen::parse(text).unwrap();
            assert_eq!(
                (listen.host.as_str(), listen.port, listen.is_loopback()),
                (host, port, loopback),
                "{text}"
            );
            assert_eq!(Listen::parse(&listen.to_string()), Ok(listen));
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "",
            "8080",
            "127.0.0.1",
            "::1:8080",
            "[::1]",
            "[::1:80",
            "[::1]x",
            "[a]:1",
            ":x",
            ":65536",
            ":-1",
            ":+1",
            "a b:1",
            "http://x:1",
            ":",
        ] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
    }
}
