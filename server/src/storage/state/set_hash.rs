//! A hash of a set that follows single changes: the sum, modulo 2^128, of the hashes of its members.
//!
//! Members are hashed with SipHash-2-4 with 128 bits of output and a fixed key. It guards against holes and mix-ups
//! made by accident, not by an adversary who may choose records.

use std::fmt;

/// The additive hash of a set of byte strings.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SetHash(pub u128);

impl SetHash {
    /// Adds a member given in parts; the same parts in the same order must be given to [`SetHash::remove`].
    pub fn add(&mut self, parts: &[&[u8]]) {
        self.0 = self.0.wrapping_add(member(parts));
    }

    /// Takes a member out.
    pub fn remove(&mut self, parts: &[&[u8]]) {
        self.0 = self.0.wrapping_sub(member(parts));
    }
}

impl fmt::Display for SetHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Each part is preceded by its length, so that no two lists of parts give the same input.
fn member(parts: &[&[u8]]) -> u128 {
    let mut hasher = Sip128::new(0x4c69_7374_7761_7463, 0x6820_7365_7420_3031);
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

/// SipHash-2-4-128 (Aumasson and Bernstein), over input given in pieces.
struct Sip128 {
    v: [u64; 4],
    tail: [u8; 8],
    tail_len: usize,
    len: u64,
}

impl Sip128 {
    fn new(k0: u64, k1: u64) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Sip128 { v, tail: [0; 8], tail_len: 0, len: 0 }
    }

    fn write(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.tail_len > 0 {
            let take = bytes.len().min(8 - self.tail_len);
            self.tail[self.tail_len..self.tail_len + take].copy_from_slice(&bytes[..take]);
            self.tail_len += take;
            bytes = &bytes[take..];
            if self.tail_len < 8 {
                return;
            }
            self.block(u64::from_le_bytes(self.tail));
        }
        let mut blocks = bytes.chunks_exact(8);
        for block in &mut blocks {
            let mut word = [0; 8];
            word.copy_from_slice(block);
            self.block(u64::from_le_bytes(word));
        }
        let rest = blocks.remainder();
        self.tail = [0; 8];
        self.tail[..rest.len()].copy_from_slice(rest);
        self.tail_len = rest.len();
    }

    fn finish(mut self) -> u128 {
        self.tail[self.tail_len..].fill(0);
        let last = u64::from_le_bytes(self.tail) | (self.len << 56);
        self.block(last);
        self.v[2] ^= 0xee;
        self.rounds(4);
        let low = self.v.iter().fold(0, |sum, v| sum ^ v);
        self.v[1] ^= 0xdd;
        self.rounds(4);
        let high = self.v.iter().fold(0, |sum, v| sum ^ v);
        u128::from(low) | (u128::from(high) << 64)
    }

    fn block(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(2);
        self.v[0] ^= word;
    }

    fn rounds(&mut self, count: usize) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..count {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(input: &[u8], cut: usize) -> String {
        let mut hasher = Sip128::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let (a, b) = input.split_at(cut.min(input.len()));
        hasher.write(a);
        hasher.write(b);
        hasher.finish().to_le_bytes().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn siphash_matches_the_published_vectors() {
        assert_eq!(reference(&[], 0), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(reference(&[0], 0), "da87c1d86b99af44347659119b22fc45");
    }

    #[test]
    fn pieces_do_not_matter() {
        let input: Vec<u8> = (0..61).collect();
        for cut in 0..61 {
            assert_eq!(reference(&input, cut), reference(&input, 0), "cut at {cut}");
        }
    }

    #[test]
    fn order_does_not_matter_and_removal_undoes() {
        let (mut a, mut b) = (SetHash::default(), SetHash::default());
        a.add(&[b"x", b"1"]);
        a.add(&[b"y", b"2"]);
        b.add(&[b"y", b"2"]);
        b.add(&[b"x", b"1"]);
        assert_eq!(a, b);
        assert_ne!(a, SetHash::default());
        b.remove(&[b"y", b"2"]);
        b.remove(&[b"x", b"1"]);
        assert_eq!(b, SetHash::default());
        b.add(&[b"x1", b""]);
        let mut c = SetHash::default();
        c.add(&[b"x", b"1"]);
        assert_ne!(b, c);
    }
}
