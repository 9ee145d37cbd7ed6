//! Compressed bodies: bombs, cuts, several members, wrong trailers, wrong codings.

use std::io::Write;

use flate2::{Compress, Compression, FlushCompress};

use super::targets::Packing::{self, Brotli, Deflate, Gzip, Zstd};
use super::targets::Target;
use super::{Family, Want, is};

const ALL: [Packing; 4] = [Gzip, Deflate, Brotli, Zstd];
const MEGABYTE: usize = 1 << 20;

pub fn build(family: &mut Family) {
    whole_and_cut(family);
    bombs(family);
    members(family);
    damage(family);
}

pub fn pack(packing: Packing, body: &[u8]) -> Vec<u8> {
    match packing {
        Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        }
        Brotli => {
            let mut packed = Vec::new();
            let mut writer = brotli::CompressorWriter::new(&mut packed, 4096, 5, 22);
            writer.write_all(body).unwrap();
            drop(writer);
            packed
        }
        Zstd => zstd::stream::encode_all(body, 3).unwrap(),
    }
}

fn page() -> Vec<u8> {
    let items: Vec<String> = (0..60u32).map(|n| format!(r#"{{"id":"{}"}}"#, n.wrapping_mul(2_654_435_761))).collect();
    format!(r#"{{"total":60,"items":[{}]}}"#, items.join(",")).into_bytes()
}

/// Bytes that cannot be packed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn whole_and_cut(family: &mut Family) {
    let body = page();
    for packing in ALL {
        let packed = pack(packing, &body);
        let target = Target::Unpack(packing);
        family.add(target, format!("{packing:?} whole"), packed.clone(), is(&body.len().to_string()));
        let mut cuts: Vec<usize> = (1..=50).map(|cut| (packed.len() - 1) * cut / 50).collect();
        cuts.retain(|cut| *cut > 0);
        cuts.dedup();
        for cut in cuts {
            family.add(target, format!("{packing:?} cut at {cut}"), &packed[..cut], Want::RefusedWith("lost"));
        }
        for other in ALL.into_iter().filter(|other| *other != packing) {
            family.add(
                Target::Unpack(other),
                format!("{packing:?} labelled {other:?}"),
                packed.clone(),
                Want::RefusedWith("lost"),
            );
        }
        family.add(target, format!("plain text labelled {packing:?}"), body.clone(), Want::RefusedWith("lost"));
        family.add(
            target,
            format!("HTML labelled {packing:?}"),
            &b"<html><body>503</body></html>"[..],
            Want::RefusedWith("lost"),
        );
        family.add(target, format!("one byte labelled {packing:?}"), vec![packed[0]], Want::Refused);
        family.add(target, format!("nothing labelled {packing:?}"), Vec::new(), is("0"));
        family.add(target, format!("an empty body in {packing:?}"), pack(packing, b""), is("0"));
        let twice = pack(packing, &packed);
        family.add(target, format!("{packing:?} twice, labelled once"), twice, is(&packed.len().to_string()));
        let honest = vec![b'x'; MEGABYTE / 2];
        family.add(
            target,
            format!("half a megabyte of one letter in {packing:?}"),
            pack(packing, &honest),
            is(&honest.len().to_string()),
        );
        let exact = noise(8 * MEGABYTE);
        let over = [&exact[..], b"x"].concat();
        family.add(
            target,
            format!("one byte over the limit in {packing:?}"),
            pack(packing, &over),
            Want::RefusedWith("too large"),
        );
        family.add(
            target,
            format!("exactly the limit in {packing:?}"),
            pack(packing, &exact),
            is(&exact.len().to_string()),
        );
    }
}

/// One megabyte of zeros as deflate blocks that end on a byte and need nothing before them.
fn zero_blocks() -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut output = Vec::with_capacity(MEGABYTE);
    compress.compress_vec(&vec![0; MEGABYTE], &mut output, FlushCompress::Full).unwrap();
    output
}

fn bombs(family: &mut Family) {
    let blocks = zero_blocks();
    let endless: Vec<u8> = blocks.repeat(512);
    let gzip_head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let too_large = || Want::RefusedWith("too large");
    family.add(Target::Unpack(Gzip), "512 MB of zeros in gzip", [&gzip_head[..], &endless].concat(), too_large());
    family.add(
        Target::Unpack(Deflate),
        "512 MB of zeros in deflate",
        [&[0x78, 0xda][..], &endless].concat(),
        too_large(),
    );
    family.add(Target::Unpack(Deflate), "512 MB of zeros in raw deflate", endless, too_large());
    let member = pack(Gzip, &vec![0; MEGABYTE / 4]);
    family.add(Target::Unpack(Gzip), "2000 gzip members of 256 KB", member.repeat(2000), too_large());
    // Each block of 4 bytes stands for 128 KB of one letter: 16 KB for 512 MB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for number in 0..4096u32 {
        let header = (128 << 10) << 3 | 1 << 1 | u32::from(number == 4095);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(b'x');
    }
    family.add(Target::Unpack(Zstd), "512 MB of one letter in 16 KB of zstd", frame, too_large());
    let frames = pack(Zstd, &vec![0; MEGABYTE]).repeat(512);
    family.add(Target::Unpack(Zstd), "512 zstd frames of 1 MB", frames, too_large());
    // A window of 2 GB and one of 128 MB, before any data.
    family.add(
        Target::Unpack(Zstd),
        "a zstd window of 2 GB",
        &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0][..],
        Want::Refused,
    );
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01, 0x00, 0x00];
    family.add(Target::Unpack(Zstd), "a zstd window of 128 MB", &wide[..], Want::Refused);
    let claimed = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0];
    family.add(Target::Unpack(Zstd), "a zstd frame that claims 8 EB", &claimed[..], Want::Refused);
    family.add(Target::Unpack(Brotli), "64 MB of zeros in brotli", pack(Brotli, &vec![0; 64 * MEGABYTE]), too_large());
    let mut large = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 5, lgwin: 30, large_window: true, ..Default::default() };
    brotli::BrotliCompress(&mut &vec![b'x'; 9 * MEGABYTE][..], &mut large, &params).unwrap();
    family.add(Target::Unpack(Brotli), "a brotli window of 1 GB", large, Want::Refused);
    let nested = pack(Gzip, &pack(Gzip, &[&gzip_head[..], &blocks.repeat(64)].concat()));
    family.add(Target::Unpack(Gzip), "a bomb inside gzip inside gzip", nested, Want::Accepted);
}

fn members(family: &mut Family) {
    for packing in [Gzip, Zstd] {
        let both = [pack(packing, b"ab"), pack(packing, b"cd")].concat();
        family.add(Target::Unpack(packing), format!("two members of {packing:?}"), both.clone(), is("4"));
        family.add(
            Target::Unpack(packing),
            format!("two members of {packing:?}, the second cut"),
            &both[..both.len() - 2],
            Want::RefusedWith("lost"),
        );
        family.add(
            Target::Unpack(packing),
            format!("{packing:?} and a word"),
            [&both[..], b"garbage!"].concat(),
            Want::RefusedWith("lost"),
        );
        let empty = pack(packing, b"").repeat(10_000);
        family.add(Target::Unpack(packing), format!("ten thousand empty members of {packing:?}"), empty, is("0"));
    }
    let both = [pack(Deflate, b"ab"), pack(Deflate, b"cd")].concat();
    family.add(Target::Unpack(Deflate), "two streams of deflate", both, Want::RefusedWith("lost"));
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &pack(Zstd, b"ab")].concat();
    family.add(Target::Unpack(Zstd), "a frame to skip", skippable, is("2"));
    let huge = [0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 1, 2];
    family.add(Target::Unpack(Zstd), "a frame of 4 GB to skip", &huge[..], Want::RefusedWith("lost"));
    family.add(
        Target::Unpack(Zstd),
        "a dictionary nobody has",
        &[0x28, 0xb5, 0x2f, 0xfd, 0x03, 0x38, 1, 2, 3, 4, 1, 0, 0][..],
        Want::RefusedWith("lost"),
    );
}

fn damage(family: &mut Family) {
    let body = page();
    let gzip = pack(Gzip, &body);
    for (name, at) in [("checksum", 8), ("length", 4)] {
        let mut wrong = gzip.clone();
        let place = wrong.len() - at;
        wrong[place] ^= 1;
        family.add(Target::Unpack(Gzip), format!("gzip with a wrong {name}"), wrong, Want::RefusedWith("lost"));
    }
    let mut zlib = pack(Deflate, &body);
    *zlib.last_mut().unwrap() ^= 1;
    family.add(Target::Unpack(Deflate), "deflate with a wrong checksum", zlib, Want::RefusedWith("lost"));
    let mut checked = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    checked.include_checksum(true).unwrap();
    checked.write_all(&body).unwrap();
    let mut checked = checked.finish().unwrap();
    *checked.last_mut().unwrap() ^= 1;
    family.add(Target::Unpack(Zstd), "zstd with a wrong checksum", checked, Want::RefusedWith("lost"));
    let mut names = gzip.clone();
    names[3] = 0x08;
    family.add(
        Target::Unpack(Gzip),
        "gzip with a name that never ends",
        [&names[..10], &vec![b'n'; MEGABYTE]].concat(),
        Want::RefusedWith("lost"),
    );
    let mut method = gzip;
    method[2] = 7;
    family.add(Target::Unpack(Gzip), "gzip of another method", method, Want::RefusedWith("lost"));
    family.add(Target::Unpack(Deflate), "a block of no known type", &[0x07, 0, 0][..], Want::RefusedWith("lost"));
    family.add(
        Target::Unpack(Deflate),
        "a stored block whose lengths differ",
        &[0x01, 5, 0, 0, 0, 1, 2, 3, 4, 5][..],
        Want::RefusedWith("lost"),
    );
}
