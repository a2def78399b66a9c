//! Which addresses a question may be sent to. Callers' text may not leave their own machines unless the operator says so.

use std::net::{IpAddr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::error::{Error, Result};

const KEY: &str = "llm.base_url";

/// Loopback, private (RFC 1918) or unique local (RFC 4193).
pub(super) fn is_own(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
    }
}

/// Reads the endpoint, and refuses what can be seen to be wrong without asking anybody.
///
/// # Errors
/// `InvalidField` on `llm.base_url`.
pub fn check_endpoint(base_url: &str, allow_remote: bool) -> Result<()> {
    checked(base_url, allow_remote).map(|_| ())
}

fn checked(base_url: &str, allow_remote: bool) -> Result<Url> {
    let url = parsed(base_url)?;
    let literal = url.host_str().and_then(|host| bare(host).parse().ok());
    match literal {
        Some(ip) if !allow_remote && !is_own(ip) => Err(foreign()),
        Some(_) | None => Ok(url),
    }
}

/// The same, and looks a name up.
///
/// # Errors
/// `InvalidField` on `llm.base_url`.
pub(super) async fn endpoint(base_url: &str, allow_remote: bool) -> Result<Url> {
    let url = checked(base_url, allow_remote)?;
    if allow_remote {
        return Ok(url);
    }
    let port = url.port_or_known_default().unwrap_or(80);
    // A name that can't be resolved yet is judged when it is used.
    let known = tokio::net::lookup_host((bare(url.host_str().unwrap_or_default()), port)).await;
    if known.is_ok_and(|mut found| found.any(|address| !is_own(address.ip()))) {
        return Err(foreign());
    }
    Ok(url)
}

fn parsed(base_url: &str) -> Result<Url> {
    let invalid = |problem: &str| Error::invalid_field(KEY, problem);
    let url = Url::parse(base_url)
        .map_err(|e| invalid("is not a URL such as http://127.0.0.1:11434/v1").caused_by(e))?;
    if url.host_str().is_none() || !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("must begin with http:// or https://"));
    }
    Ok(url)
}

/// An IPv6 address stands in brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn foreign() -> Error {
    Error::invalid_field(
        KEY,
        "is not a loopback or private address: callers' questions would leave this network; \
         set llm.allow_remote = true if they may",
    )
}

/// Resolves names to addresses of one's own only.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnAddresses;

impl Resolve for OwnAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            if found.iter().any(|address| !is_own(address.ip())) {
                return Err("llm.base_url resolves to an address outside".into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_loopback_private_and_unique_local() {
        let own = [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ];
        for ip in own {
            assert!(is_own(ip.parse().unwrap()), "{ip}");
        }
        let foreign = [
            "8.8.8.8",
            "172.32.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "2001:db8::1",
            "fe80::1",
            "::ffff:8.8.8.8",
        ];
        for ip in foreign {
            assert!(!is_own(ip.parse().unwrap()), "{ip}");
        }
    }

    #[tokio::test]
    async fn a_foreign_endpoint_is_refused_unless_allowed() {
        for url in [
            "http://8.8.8.8/v1",
            "https://[2001:db8::1]/v1",
            "ftp://127.0.0.1",
            "nonsense",
        ] {
            let error = endpoint(url, false).await.unwrap_err();
            assert_eq!(error.field(), Some("llm.base_url"), "{url}");
        }
        assert!(endpoint("https://8.8.8.8/v1", true).await.is_ok());
        for url in [
            "http://127.0.0.1:1/v1",
            "http://[::1]:1/v1",
            "http://localhost/v1",
        ] {
            assert!(endpoint(url, false).await.is_ok(), "{url}");
        }
    }
}
