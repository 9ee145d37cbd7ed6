//! Decompression with limits. A body counts only if its last byte and its trailer are there.
//!
//! The packed body is held whole (it is within the limit too), so memory stays below twice the limit however the
//! bomb is built. More than one coding is refused: no honest source nests them.

use std::io::{ErrorKind, Read};

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use patra_core::ports::TransportError;

/// The ratio is looked at above this size.
const RATIO_FROM: u64 = 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// Largest window of zstd on the wire, 8 MiB (RFC 9659); the library would take 128 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes, packed and unpacked.
    pub bytes: u64,
    /// Unpacked over packed size.
    pub ratio: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The one coding of a body.
pub fn codings(headers: &[(String, String)]) -> Result<Coding, String> {
    let named = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
    let mut coding = Coding::Identity;
    for name in named.flat_map(|(_, value)| value.split(',')).map(|name| name.trim().to_ascii_lowercase()) {
        let next = match name.as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            _ => return Err("an encoding we did not ask for".to_owned()),
        };
        if coding != Coding::Identity {
            return Err("nested encodings are refused".to_owned());
        }
        coding = next;
    }
    Ok(coding)
}

/// Unpacks a whole body.
pub fn inflate(packed: Bytes, coding: Coding, limits: Limits) -> Result<Bytes, TransportError> {
    if packed.is_empty() || coding == Coding::Identity {
        return Ok(packed);
    }
    let sink = Sink { limits, packed: packed.len() as u64, body: Vec::new() };
    match coding {
        Coding::Identity => Ok(packed),
        Coding::Gzip => sink.drain(flate2::read::MultiGzDecoder::new(&packed[..])),
        Coding::Deflate => deflate(&packed, sink),
        // A window of up to 1 GiB is an extension that the coding `br` does not have (RFC 7932).
        Coding::Brotli if packed[0] & 0x7f == 0x11 => Err(cut()),
        Coding::Brotli => sink.drain(brotli::Decompressor::new(&packed[..], CHUNK)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(&packed[..]).map_err(|error| lost(&error))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|error| lost(&error))?;
            sink.drain(decoder)
        }
    }
}

struct Sink {
    limits: Limits,
    packed: u64,
    body: Vec<u8>,
}

impl Sink {
    fn drain(mut self, mut reader: impl Read) -> Result<Bytes, TransportError> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match reader.read(&mut chunk) {
                Ok(0) => return Ok(Bytes::from(self.body.into_boxed_slice())),
                Ok(count) => self.push(&chunk[..count])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    fn push(&mut self, chunk: &[u8]) -> Result<(), TransportError> {
        let size = (self.body.len() + chunk.len()) as u64;
        if size > self.limits.bytes {
            return Err(TransportError::TooLarge(format!("the body unpacks to more than {} bytes", self.limits.bytes)));
        }
        if size > RATIO_FROM && size / self.packed.max(1) > u64::from(self.limits.ratio) {
            return Err(TransportError::TooLarge(format!(
                "the body unpacks to more than {} times its size",
                self.limits.ratio
            )));
        }
        self.body.extend_from_slice(chunk);
        Ok(())
    }
}

fn lost(error: &std::io::Error) -> TransportError {
    TransportError::Lost(format!("the compressed body is cut or damaged: {error}"))
}

fn cut() -> TransportError {
    TransportError::Lost("the compressed body is cut or damaged".to_owned())
}

/// `deflate` is a zlib stream by the book and a raw one by custom. The reader of the crate takes a cut stream for a
/// whole one, so the end is looked for here.
fn deflate(packed: &[u8], mut sink: Sink) -> Result<Bytes, TransportError> {
    let zlib =
        packed.len() >= 2 && packed[0] & 0x0f == 8 && (u16::from(packed[0]) << 8 | u16::from(packed[1])) % 31 == 0;
    let mut state = Decompress::new(zlib);
    let mut chunk = vec![0; CHUNK];
    loop {
        let (before_in, before_out) = (state.total_in(), state.total_out());
        let rest = &packed[usize::try_from(before_in).unwrap_or(packed.len())..];
        let status = state.decompress(rest, &mut chunk, FlushDecompress::None).map_err(|_| cut())?;
        let count = usize::try_from(state.total_out() - before_out).unwrap_or(0);
        sink.push(&chunk[..count])?;
        match status {
            Status::StreamEnd if state.total_in() == packed.len() as u64 => return Ok(Bytes::from(sink.body)),
            Status::StreamEnd => return Err(cut()),
            _ if count == 0 && state.total_in() == before_in => return Err(cut()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMITS: Limits = Limits { bytes: 4 * 1024 * 1024, ratio: 200 };

    fn pack(coding: Coding, body: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Identity => body.to_vec(),
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(body).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Brotli => {
                let mut packed = Vec::new();
                let mut writer = brotli::CompressorWriter::new(&mut packed, 4096, 5, 22);
                writer.write_all(body).unwrap();
                drop(writer);
                packed
            }
            Coding::Zstd => zstd::stream::encode_all(body, 3).unwrap(),
        }
    }

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    fn text() -> Vec<u8> {
        (0..20_000u32).flat_map(|n| format!("{{\"id\":{}}},", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    #[test]
    fn a_whole_body_is_unpacked_and_a_cut_one_never_accepted() {
        let body = text();
        for coding in ALL {
            let packed = pack(coding, &body);
            assert_eq!(inflate(packed.clone().into(), coding, LIMITS).unwrap(), body, "{coding:?}");
            for cut in 1..=50 {
                let at = (packed.len() - 1) * cut / 50;
                let part = Bytes::copy_from_slice(&packed[..at.max(1)]);
                let result = inflate(part, coding, LIMITS);
                assert!(
                    matches!(result, Err(TransportError::Lost(_))),
                    "{coding:?} cut at {at}: {:?}",
                    result.map(|b| b.len())
                );
            }
        }
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        raw.write_all(&body).unwrap();
        assert_eq!(inflate(raw.finish().unwrap().into(), Coding::Deflate, LIMITS).unwrap(), body);
    }

    #[test]
    fn bombs_end_at_the_limit_s12() {
        let zeros = vec![0u8; 64 * 1024 * 1024];
        for coding in ALL {
            let bomb = Bytes::from(pack(coding, &zeros));
            assert!(bomb.len() < 200_000, "{coding:?}");
            let refused = inflate(bomb.clone(), coding, LIMITS);
            assert!(matches!(refused, Err(TransportError::TooLarge(_))), "{coding:?}");
            let by_ratio = inflate(bomb.clone(), coding, Limits { bytes: 1 << 30, ratio: 10 });
            assert!(matches!(by_ratio, Err(TransportError::TooLarge(_))), "{coding:?}");
            let open = Limits { bytes: 1 << 30, ratio: u32::MAX };
            assert_eq!(inflate(bomb, coding, open).unwrap().len(), zeros.len(), "without the limit it gets through");
        }
    }

    #[test]
    fn concatenated_members_count_together_and_nesting_is_refused() {
        let mut twice = pack(Coding::Gzip, b"ab");
        twice.extend(pack(Coding::Gzip, b"cd"));
        assert_eq!(inflate(twice.into(), Coding::Gzip, LIMITS).unwrap(), "abcd");
        let header = |value: &str| vec![("content-encoding".to_owned(), value.to_owned())];
        assert!(codings(&header("gzip, gzip")).is_err());
        assert!(codings(&header("compress")).is_err());
        assert_eq!(codings(&header("identity, GZIP")), Ok(Coding::Gzip));
        assert_eq!(codings(&[]), Ok(Coding::Identity));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            for coding in ALL {
                let _ = inflate(Bytes::from(bytes.clone()), coding, LIMITS);
            }
        }
    }
}
