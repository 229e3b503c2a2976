//! URLs and IP addresses

use super::Function;
use super::args::{Args, Shape};
use super::rows::In;
use crate::Diagnostic;
use crate::node::Node;
use crate::value::Value;
use ipnet::IpNet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::Url;

macro_rules! part {
    ($name:literal, $part:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(url) -> string"),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Text])?;
                let part: fn(&Url) -> Option<&str> = $part;
                Ok(args.into_text(move |row: In<'_>, out: &mut String| {
                    Url::parse(row.text(0)).ok().as_ref().and_then(part).map(|part| out.push_str(part))
                }))
            },
        }
    };
}

macro_rules! ip {
    ($name:literal, $result:literal, $make:ident, $map:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(text) -> ", $result),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Text])?;
                Ok(args.$make($map))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isUrl",
        signature: "isUrl(text) -> bool",
        doc: "Whether the text is an absolute URL, by the WHATWG standard.",
        examples: &[("isUrl('https://a.example/x?y=1')", "true"), ("isUrl('/x')", "false")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_bool(|row| Url::parse(row.text(0)).is_ok()))
        },
    },
    part!(
        "urlScheme",
        |url| Some(url.scheme()),
        "The scheme of a URL, in lower case; null of what is not an absolute URL.",
        [("urlScheme('HTTPS://a.example/')", "'https'"), ("urlScheme('/x')", "null")]
    ),
    part!(
        "urlHost",
        Url::host_str,
        "The host of a URL, in lower case and ASCII; null without one, and of what is not an absolute URL.",
        [("urlHost('https://User@A.Example:8443/x')", "'a.example'"), ("urlHost('mailto:a@b.example')", "null"),]
    ),
    part!(
        "urlPath",
        |url| Some(url.path()),
        "The path of a URL, percent-encoded; null of what is not an absolute URL.",
        [("urlPath('https://a.example/x/y?z=1')", "'/x/y'"), ("urlPath('https://a.example')", "'/'")]
    ),
    part!(
        "urlQuery",
        Url::query,
        "The query of a URL, without `?`, percent-encoded; null without one, and of what is not an absolute URL.",
        [("urlQuery('https://a.example/?a=1&b=2#c')", "'a=1&b=2'"), ("urlQuery('https://a.example/')", "null")]
    ),
    part!(
        "urlFragment",
        Url::fragment,
        "The fragment of a URL, without `#`, percent-encoded; null without one, and of what is not an absolute URL.",
        [("urlFragment('https://a.example/#top')", "'top'")]
    ),
    part!(
        "urlUser",
        |url| Some(url.username()).filter(|user| !user.is_empty()),
        "The user name in a URL, percent-encoded; null without one, and of what is not an absolute URL.",
        [("urlUser('ftp://me:secret@a.example/')", "'me'")]
    ),
    Function {
        name: "urlPort",
        signature: "urlPort(url) -> int64",
        doc: "The port of a URL, or the usual one of its scheme; null without either, and of what is not an absolute URL.",
        examples: &[("urlPort('https://a.example:8443/')", "8443"), ("urlPort('https://a.example/')", "443"), ("urlPort('x:y')", "null")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_int(|row| Url::parse(row.text(0)).ok()?.port_or_known_default().map(i64::from)))
        },
    },
    Function {
        name: "urlParam",
        signature: "urlParam(url, name) -> string",
        doc: "The first value of a parameter in the query of a URL, decoded; null without one, and of what is not an absolute URL.",
        examples: &[
            ("urlParam('https://a.example/?q=a%20b+c&n=1', 'q')", "'a b c'"),
            ("urlParam('https://a.example/?q', 'q')", "''"),
            ("urlParam('https://a.example/', 'q')", "null"),
        ],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_text(|row, out: &mut String| {
                let url = Url::parse(row.text(0)).ok()?;
                let (_, value) = url.query_pairs().find(|(name, _)| name == row.text(1))?;
                out.push_str(&value);
                Some(())
            }))
        },
    },
    Function {
        name: "urlEncode",
        signature: "urlEncode(text) -> string",
        doc: "The text with every byte percent-encoded but letters and digits of ASCII and `-`, `.`, `_`, `~`.",
        examples: &[("urlEncode('a b/ä')", "'a%20b%2F%C3%A4'")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_text(|row, out: &mut String| {
                for byte in row.bytes(0) {
                    match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(*byte)),
                        _ => {
                            let _ = write!(out, "%{byte:02X}");
                        }
                    }
                }
            }))
        },
    },
    Function {
        name: "urlDecode",
        signature: "urlDecode(text) -> string",
        doc: "The text with every `%` and two hexadecimal digits replaced by the byte they stand for; `+` stays. A `%` without them, and bytes that are not UTF-8, make a bad row.",
        examples: &[
            ("urlDecode('a%20b%2F%c3%a4')", "'a b/ä'"),
            ("urlDecode('a+b')", "'a+b'"),
            ("urlDecode('100%')", "error"),
            ("urlDecode('%ff')", "error"),
        ],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_text(|row, out: &mut String| percent_decoded(row.text(0), out)))
        },
    },
    ip!(
        "isIp",
        "bool",
        into_bool,
        |row: In<'_>| row.text(0).parse::<IpAddr>().is_ok(),
        "Whether the text is an IPv4 or IPv6 address.",
        [("isIp('10.0.0.1')", "true"), ("isIp('::1')", "true"), ("isIp('10.0.0.256')", "false")]
    ),
    ip!(
        "isIpv4",
        "bool",
        into_bool,
        |row: In<'_>| row.text(0).parse::<Ipv4Addr>().is_ok(),
        "Whether the text is an IPv4 address, four numbers without leading zeros.",
        [("isIpv4('10.0.0.1')", "true"), ("isIpv4('::1')", "false")]
    ),
    ip!(
        "isIpv6",
        "bool",
        into_bool,
        |row: In<'_>| row.text(0).parse::<Ipv6Addr>().is_ok(),
        "Whether the text is an IPv6 address.",
        [("isIpv6('2001:db8::1')", "true"), ("isIpv6('10.0.0.1')", "false")]
    ),
    ip!(
        "ipVersion",
        "int64",
        into_int,
        |row: In<'_>| row.text(0).parse::<IpAddr>().ok().map(|ip| if ip.is_ipv4() { 4 } else { 6 }),
        "4 or 6, the version of an IP address; null of anything else.",
        [("ipVersion('::1')", "6"), ("ipVersion('x')", "null")]
    ),
    ip!(
        "ipIsPrivate",
        "bool",
        into_bool,
        |row: In<'_>| address(row, 0).map(private),
        "Whether an IP address is of a private network, of the link or of the machine itself, not of the public internet (RFC 1918, 3927, 4193, 4291). What is not an address makes a bad row.",
        [
            ("ipIsPrivate('192.168.1.7')", "true"),
            ("ipIsPrivate('8.8.8.8')", "false"),
            ("ipIsPrivate('fd00::1')", "true"),
            ("ipIsPrivate('x')", "error"),
        ]
    ),
    ip!(
        "ipToInt",
        "int64",
        into_int,
        |row: In<'_>| match row.text(0).parse::<Ipv4Addr>() {
            Ok(ip) => Ok(i64::from(u32::from(ip))),
            Err(_) => Err(format!("`{}` is not an IPv4 address", row.text(0))),
        },
        "An IPv4 address as a number; anything else makes a bad row.",
        [("ipToInt('1.2.3.4')", "16909060"), ("ipToInt('::1')", "error")]
    ),
    Function {
        name: "ipFromInt",
        signature: "ipFromInt(integer) -> string",
        doc: "The IPv4 address of a number from 0 to 4294967295; any other makes a bad row.",
        examples: &[("ipFromInt(16909060)", "'1.2.3.4'"), ("ipFromInt(-1)", "error")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_text(|row, out: &mut String| match u32::try_from(row.int(0)) {
                Ok(bits) => {
                    let _ = write!(out, "{}", Ipv4Addr::from(bits));
                    Ok(())
                }
                Err(_) => Err(format!("`{}` is not an IPv4 address", row.int(0))),
            }))
        },
    },
    Function {
        name: "ipInCidr",
        signature: "ipInCidr(ip, network, ...) -> bool",
        doc: "Whether an IP address lies in one of the networks, such as '10.0.0.0/8' or 'fd00::/8'. IPv4 and IPv6 do not mix. What is not an address or a network makes a bad row.",
        examples: &[
            ("ipInCidr('10.1.2.3', '10.0.0.0/8')", "true"),
            ("ipInCidr('11.1.2.3', '10.0.0.0/8', '192.168.0.0/16')", "false"),
            ("ipInCidr('2001:db8::7', '2001:db8::/32')", "true"),
            ("ipInCidr('x', '10.0.0.0/8')", "error"),
        ],
        arity: (2, 64),
        bind: in_cidr,
    },
    Function {
        name: "ipPrefix",
        signature: "ipPrefix(ip, bits) -> string",
        doc: "The network of the first `bits` bits of an IP address; what is not an address, or more bits than it has, makes a bad row.",
        examples: &[
            ("ipPrefix('10.1.2.3', 16)", "'10.1.0.0/16'"),
            ("ipPrefix('2001:db8::7', 32)", "'2001:db8::/32'"),
            ("ipPrefix('10.1.2.3', 33)", "error"),
        ],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Text, Shape::Integer])?;
            Ok(args.into_text(|row, out: &mut String| {
                let ip = address(row, 0)?;
                let bits = u8::try_from(row.int(1)).ok().and_then(|bits| IpNet::new(ip, bits).ok());
                let network = bits.ok_or_else(|| format!("`{}` is not a number of bits of `{ip}`", row.int(1)))?;
                let _ = write!(out, "{}", network.trunc());
                Ok::<(), String>(())
            }))
        },
    },
];

fn percent_decoded(text: &str, out: &mut String) -> Result<(), String> {
    let wrong = || "not percent-encoded UTF-8".to_string();
    let mut rest = text;
    let mut bytes = Vec::new();
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        bytes.clear();
        while let Some(escape) = rest.strip_prefix('%') {
            let digits = escape.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())).ok_or_else(wrong)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &escape[2..];
        }
        out.push_str(std::str::from_utf8(&bytes).map_err(|_| wrong())?);
    }
    out.push_str(rest);
    Ok(())
}

fn address(row: In<'_>, at: usize) -> Result<IpAddr, String> {
    row.text(at).parse().map_err(|_| format!("`{}` is not an IP address", row.text(at)))
}

fn private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| format!("`{text}` is not a network such as `10.0.0.0/8`"))
}

fn in_cidr(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    args.take(&[Shape::Text])?;
    // Networks that are constants, as nearly all are, are read once.
    let mut constant = Vec::new();
    for at in 1..args.len() {
        if let Some(Value::Text(text)) = args.nodes[at].as_literal() {
            constant.push(network(text).map_err(|message| args.refuse(at, message))?);
        }
    }
    if constant.len() == args.len() - 1 {
        args.nodes.truncate(1);
        return Ok(args.into_bool(move |row| {
            let ip = address(row, 0)?;
            Ok::<_, String>(constant.iter().any(|network| network.contains(&ip)))
        }));
    }
    Ok(args.into_bool(|row| {
        let ip = address(row, 0)?;
        let mut inside = false;
        for at in 1..row.len() {
            inside |= network(row.text(at))?.contains(&ip);
        }
        Ok::<_, String>(inside)
    }))
}
