//! The two encodings of a body, chosen by `Content-Type`.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::json_error;
use crate::error::{Error, ErrorKind, Result};

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Protobuf; also without a `Content-Type`.
    Protobuf,
    /// proto3-JSON.
    Json,
}

impl Encoding {
    /// The encoding a `Content-Type` names; parameters such as a charset are ignored.
    ///
    /// # Errors
    /// `UnsupportedEncoding` for any other type.
    pub fn of(content_type: Option<&str>) -> Result<Self> {
        let essence = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        match essence.as_str() {
            "" | "application/protobuf" | "application/x-protobuf" => Ok(Encoding::Protobuf),
            "application/json" => Ok(Encoding::Json),
            _ => Err(Error::new(
                ErrorKind::UnsupportedEncoding,
                "Content-Type must be application/protobuf or application/json",
            )),
        }
    }

    /// The `Content-Type` of what is encoded this way.
    pub const fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/protobuf",
            Encoding::Json => "application/json",
        }
    }
}

/// Decodes a body.
///
/// # Errors
/// `Malformed`, with a place but without any of the body's text.
pub fn decode<M: Message + Default + DeserializeOwned>(
    body: &[u8],
    encoding: Encoding,
) -> Result<M> {
    match encoding {
        Encoding::Protobuf => M::decode(body).map_err(|_| {
            Error::new(
                ErrorKind::Malformed,
                "the body is not a protobuf message of this kind",
            )
        }),
        Encoding::Json => decode_json(body),
    }
}

fn decode_json<M: DeserializeOwned>(body: &[u8]) -> Result<M> {
    serde_json::from_slice(body).or_else(|error| {
        // The generated code refuses integers from 2^53 on as undecodable, wherever they stand. In metadata and filters they are
        // decodable: as doubles they come back, and those that are too large are refused by name. It also refuses 5.0 for an
        // integer, which proto3-JSON allows.
        let again = serde_json::from_slice(body).ok().and_then(|value| {
            let mut value: serde_json::Value = value;
            renumbered(&mut value).then(|| serde_json::from_value(value).ok())?
        });
        again.ok_or_else(|| Error::new(ErrorKind::Malformed, json_error::describe(&error)))
    })
}

/// The integer that a double stands for, when it is one that a double holds exactly.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let double = number.as_f64()?;
    let exact = double.fract() == 0.0 && double.abs() < (1u64 << 53) as f64;
    exact.then_some(double as i64)
}

/// Turns integers from 2^53 on into doubles, those beyond it into one that no rounding makes acceptable, and whole doubles
/// into integers. Whether there was one.
fn renumbered(value: &mut serde_json::Value) -> bool {
    const LIMIT: u64 = 1 << 53;
    match value {
        serde_json::Value::Number(number) => {
            let signed = number.as_i64().map(|n| (n < 0, n.unsigned_abs()));
            let Some((negative, size)) = signed.or(number.as_u64().map(|n| (false, n))) else {
                return whole(number).map(|n| *value = n.into()).is_some();
            };
            if size < LIMIT {
                return false;
            }
            let double = if size == LIMIT {
                LIMIT as f64
            } else {
                LIMIT as f64 * 2.0
            };
            *value = serde_json::json!(if negative { -double } else { double });
            true
        }
        // Every one is turned: no short cut at the first.
        serde_json::Value::Array(items) => items
            .iter_mut()
            .fold(false, |any, item| renumbered(item) | any),
        serde_json::Value::Object(fields) => fields
            .values_mut()
            .fold(false, |any, item| renumbered(item) | any),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => {
            false
        }
    }
}

/// Encodes a message.
pub fn encode<M: Message + Serialize>(message: &M, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => message.encode_to_vec(),
        // Only non-finite metadata numbers can't be written, and those are refused when they come in.
        Encoding::Json => serde_json::to_vec(message).unwrap_or_else(|_| b"{}".to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_decides() {
        let json = Encoding::of(Some("Application/JSON; charset=utf-8"));
        assert_eq!(json.expect("known"), Encoding::Json);
        assert_eq!(Encoding::of(None).expect("known"), Encoding::Protobuf);
        let error = Encoding::of(Some("text/xml")).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::UnsupportedEncoding);
    }
}
