//! Grants of the network: which hosts, at which ports.
//!
//! A guest names a host and a grant names one, and both are read the same way, so that `127.1`, `0x7f.0.0.1` and `EXAMPLE.com.` are no
//! way around. A name is one thing and the address behind it another: what a name may lead to is decided by [`HostGrant::admits`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Url;

/// A host as a grant or a guest names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Host {
    /// A name, in lower case.
    Name(String),
    /// Every name below this one: `*.example.com`.
    Below(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// Reads a name or an address; an IPv6 address stands in brackets.
    pub(crate) fn read(text: &str) -> Option<Host> {
        let text = text.strip_suffix('.').unwrap_or(text);
        match url::Host::parse(text).ok()? {
            url::Host::Domain(name) if name.is_empty() || name.contains('*') => None,
            url::Host::Domain(name) => Some(Host::Name(name)),
            url::Host::Ipv4(address) => Some(Host::Address(address.into())),
            url::Host::Ipv6(address) => Some(Host::Address(IpAddr::V6(address).to_canonical())),
        }
    }

    /// As a grant is written: also `*.NAME`.
    fn granted(text: &str) -> Option<Host> {
        match text.strip_prefix("*.") {
            None => Host::read(text),
            Some(rest) => match Host::read(rest)? {
                Host::Name(name) => Some(Host::Below(name)),
                Host::Below(_) | Host::Address(_) => None,
            },
        }
    }

    /// Whether a grant of this host covers a host that a guest names.
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Host::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).and_then(|front| front.strip_suffix('.')).is_some_and(|front| !front.is_empty())
            }
            (granted, named) => granted == named,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Below(name) => write!(f, "*.{name}"),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// What kind of address a name led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// One of the internet.
    Public,
    /// This machine, or a network of one's own.
    Private,
    /// Link-local, where clouds keep their credentials; multicast; reserved. Nothing that a name should lead to.
    Reserved,
}

impl Reach {
    fn of(address: IpAddr) -> Reach {
        match address.to_canonical() {
            IpAddr::V4(address) => Reach::of_v4(address),
            IpAddr::V6(address) => Reach::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Reach {
        let [a, b, c, _] = address.octets();
        match (a, b, c) {
            (10 | 127, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Reach::Private,
            (0, ..) | (169, 254, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _) | (224.., ..) => Reach::Reserved,
            // Looks public, and is where machines of one cloud ask for their secrets.
            (168, 63, 129) => Reach::Reserved,
            _ => Reach::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Reach {
        let segments = address.segments();
        let last_four = || Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
        // A metadata service that lies in an otherwise private range.
        if segments == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] {
            return Reach::Reserved;
        }
        match segments {
            _ if address == Ipv6Addr::LOCALHOST => Reach::Private,
            [0xfc00..=0xfdff, ..] => Reach::Private,
            // Translated and tunnelled: what counts is the address within.
            [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Reach::of_v4(last_four()),
            [0x2002, high, low, ..] => Reach::of_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
            // All that is assigned lies in 2000::/3; of it Teredo is left out, a tunnel that hides the address within.
            [0x2001, 0, ..] => Reach::Reserved,
            [0x2000..=0x3fff, ..] => Reach::Public,
            _ => Reach::Reserved,
        }
    }
}

/// One host at one port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HostGrant {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// Whether its name may lead to private addresses: `private:` before it.
    pub private: bool,
}

impl HostGrant {
    /// Reads `[private:]HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Result<HostGrant, String> {
        let (rest, private) = private(text);
        let wrong = || format!("`{text}` is not `HOST:PORT`, such as `db.example.com:5432`, `10.0.0.7:5432` or `[::1]:5432`");
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        HostGrant { host: Host::granted(host).ok_or_else(wrong)?, port, private }.checked(text)
    }

    fn checked(self, text: &str) -> Result<HostGrant, String> {
        match self.host {
            Host::Address(_) if self.private => Err(format!("`{text}`: `private:` is for names; an address is granted by naming it")),
            _ => Ok(self),
        }
    }

    /// Whether it is about this host and port.
    pub(crate) fn covers(&self, host: &Host, port: u16) -> bool {
        self.port == port && self.host.covers(host)
    }

    /// Whether it is about this name, at whatever port.
    pub(crate) fn covers_name(&self, host: &Host) -> bool {
        self.host.covers(host)
    }

    /// Whether what it grants may be found at this address. An address is granted by naming it; a name leads to public ones only, unless it
    /// is `localhost` or is called private. A name never leads to a link-local address, where clouds keep their credentials.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match &self.host {
            Host::Address(own) => *own == address,
            Host::Name(name) if name == "localhost" => address.is_loopback(),
            Host::Name(_) | Host::Below(_) => match Reach::of(address) {
                Reach::Public => true,
                Reach::Private => self.private,
                Reach::Reserved => false,
            },
        }
    }
}

impl fmt::Display for HostGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let private = if self.private { "private:" } else { "" };
        write!(f, "{private}{}:{}", self.host, self.port)
    }
}

/// One origin: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HttpGrant {
    /// Whether it is `https`.
    pub secure: bool,
    /// The host and port.
    pub at: HostGrant,
}

impl HttpGrant {
    /// Reads `[private:]http[s]://HOST[:PORT]`.
    pub(crate) fn parse(text: &str) -> Result<HttpGrant, String> {
        let (rest, private) = private(text);
        let wrong = || format!("`{text}` is no origin, such as `https://api.example.com` or `http://127.0.0.1:8080`");
        let (scheme, host) = rest.split_once("://").ok_or_else(wrong)?;
        let below = host.strip_prefix("*.");
        let url = Url::parse(&format!("{scheme}://{}", below.unwrap_or(host))).map_err(|_| wrong())?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(format!("`{text}`: the scheme is `http` or `https`, not `{other}`")),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(format!("`{text}`: an origin ends with its host or port; paths are not told apart"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an origin has no user and no password; those belong into `secrets`".into());
        }
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or_else(wrong)?;
        let named = url.host_str().map(|name| if below.is_some() { format!("*.{name}") } else { name.to_string() });
        let host = named.as_deref().and_then(Host::granted).ok_or_else(wrong)?;
        Ok(HttpGrant { secure, at: HostGrant { host, port, private }.checked(text)? })
    }

    /// Whether it is about this origin.
    pub(crate) fn covers(&self, secure: bool, host: &Host, port: u16) -> bool {
        self.secure == secure && self.at.covers(host, port)
    }

    /// The grant that would cover an origin.
    pub(crate) fn of(secure: bool, host: Host, port: u16) -> HttpGrant {
        HttpGrant { secure, at: HostGrant { host, port, private: false } }
    }
}

impl fmt::Display for HttpGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let private = if self.at.private { "private:" } else { "" };
        let (scheme, usual) = if self.secure { ("https", 443) } else { ("http", 80) };
        write!(f, "{private}{scheme}://{}", self.at.host)?;
        if self.at.port == usual { Ok(()) } else { write!(f, ":{}", self.at.port) }
    }
}

fn private(text: &str) -> (&str, bool) {
    match text.strip_prefix("private:") {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(text: &str) -> HttpGrant {
        HttpGrant::parse(text).unwrap()
    }

    fn covers(grant: &str, secure: bool, host: &str, port: u16) -> bool {
        http(grant).covers(secure, &Host::read(host).unwrap(), port)
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert!(covers("https://api.example.com", true, "api.example.com", 443));
        assert!(covers("https://api.example.com", true, "API.Example.COM.", 443));
        assert!(!covers("https://api.example.com", false, "api.example.com", 443));
        assert!(!covers("https://api.example.com", true, "api.example.com", 8443));
        assert!(!covers("https://api.example.com", true, "example.com", 443));
        assert!(!covers("https://api.example.com", true, "api.example.com.evil.net", 443));
        assert!(covers("http://127.0.0.1:8080", false, "127.1", 8080), "another writing of the same address");
        assert!(!covers("http://127.0.0.1:8080", false, "localhost", 8080), "a name is not the address");
        assert!(covers("http://[::1]:8080", false, "[::1]", 8080));
    }

    #[test]
    fn a_star_is_every_name_below() {
        assert!(covers("https://*.example.com", true, "a.b.example.com", 443));
        for other in ["example.com", "badexample.com", "127.0.0.1"] {
            assert!(!covers("https://*.example.com", true, other, 443), "{other}");
        }
    }

    #[test]
    fn grants_are_written_as_they_are_read() {
        for text in ["https://api.example.com", "http://127.0.0.1:8080", "private:https://*.corp.example:8443", "http://[::1]"] {
            assert_eq!(http(text).to_string(), text);
        }
        for text in ["db.example.com:5432", "private:db.corp:5432", "10.0.0.7:1", "[::1]:9"] {
            assert_eq!(HostGrant::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in [
            "api.example.com",
            "ftp://x",
            "https://",
            "https://x/path",
            "https://u:p@x",
            "https://*.1.2.3.4",
            "private:http://10.0.0.1",
            "https://a*b",
        ] {
            assert!(HttpGrant::parse(text).is_err(), "{text}");
        }
        for text in ["x", "x:0", "x:70000", ":1", "a b:1", "::1:5", "private:10.0.0.7:1"] {
            assert!(HostGrant::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_leads_to_public_addresses_only() {
        let named = HostGrant::parse("api.example.com:80").unwrap();
        let private = HostGrant::parse("private:api.example.com:80").unwrap();
        for public in ["203.0.113.1", "172.32.0.1", "2001:db8::1", "64:ff9b::203.0.113.1", "::ffff:203.0.113.1"] {
            assert!(named.admits(public.parse().unwrap()), "{public}");
        }
        for own in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
        ] {
            assert!(!named.admits(own.parse().unwrap()), "{own}");
            assert!(private.admits(own.parse().unwrap()), "{own}");
        }
        for never in [
            "169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            "168.63.129.16",
            "fd00:ec2::254",
            "::127.0.0.1",
            "2001:0:1::",
        ] {
            assert!(!named.admits(never.parse().unwrap()) && !private.admits(never.parse().unwrap()), "{never}");
            let address: IpAddr = never.parse().unwrap();
            let itself = HostGrant { host: Host::Address(address), port: 80, private: false };
            assert!(itself.admits(address), "an address is granted by naming it");
        }
        let local = HostGrant::parse("localhost:80").unwrap();
        assert!(local.admits("127.0.0.1".parse().unwrap()) && local.admits("::1".parse().unwrap()));
        assert!(!local.admits("10.0.0.1".parse().unwrap()) && !local.admits("203.0.113.1".parse().unwrap()));
    }
}
