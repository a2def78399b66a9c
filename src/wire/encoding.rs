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
        Encoding::Json => serde_json::from_slice(body)
            .map_err(|error| Error::new(ErrorKind::Malformed, json_error::describe(&error))),
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
