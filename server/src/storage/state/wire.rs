//! The small alphabet of the state's binary records: varints, length-prefixed bytes and a CRC.
//!
//! All fixed-width numbers are little-endian. A varint is LEB128; a signed number that may be negative is zigzag-coded
//! first.

use super::StateError;

/// Appends to a buffer.
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32_fixed(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u128_fixed(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.u64(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Ends the record with the CRC-32C of the tree key and everything written so far.
    pub(super) fn seal(mut self, key: &[u8]) -> Vec<u8> {
        let crc = crc(&[key, &self.0]);
        self.u32_fixed(crc);
        self.0
    }
}

/// CRC-32C over the parts, one after the other.
pub(super) fn crc(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// Reads what an [`Encoder`] wrote; every error names the record.
pub(super) struct Decoder<'a> {
    all: &'a [u8],
    at: usize,
    key: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(super) fn new(key: &'a [u8], all: &'a [u8]) -> Self {
        Decoder { all, at: 0, key }
    }

    pub(super) fn damaged(&self, reason: impl Into<String>) -> StateError {
        StateError::damaged(self.key.escape_ascii().to_string(), reason)
    }

    /// Everything read so far.
    pub(super) fn consumed(&self) -> &'a [u8] {
        &self.all[..self.at]
    }

    /// Everything not yet read.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.all[self.at..]
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], StateError> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.all.len());
        let end = end.ok_or_else(|| self.damaged("the record is cut short"))?;
        let taken = &self.all[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, StateError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u32_fixed(&mut self) -> Result<u32, StateError> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(word))
    }

    pub(super) fn u128_fixed(&mut self) -> Result<u128, StateError> {
        let mut word = [0; 16];
        word.copy_from_slice(self.take(16)?);
        Ok(u128::from_le_bytes(word))
    }

    pub(super) fn u64(&mut self) -> Result<u64, StateError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number has too many digits"))
    }

    pub(super) fn i64(&mut self) -> Result<i64, StateError> {
        let coded = self.u64()?;
        Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], StateError> {
        let len = self.u64()?;
        let len = usize::try_from(len).map_err(|_| self.damaged("a length is out of range"))?;
        self.take(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, StateError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    /// Checks the CRC that [`Encoder::seal`] wrote at this place; what follows it is the caller's.
    pub(super) fn check_seal(&mut self) -> Result<(), StateError> {
        let expected = crc(&[self.key, self.consumed()]);
        let found = self.u32_fixed()?;
        if found != expected {
            return Err(self.damaged(format!("checksum {found:08x}, computed {expected:08x}")));
        }
        Ok(())
    }

    /// Checks the seal and that nothing follows it.
    pub(super) fn finish(mut self) -> Result<(), StateError> {
        self.check_seal()?;
        if self.rest().is_empty() { Ok(()) } else { Err(self.damaged("bytes follow the record")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_round_trip() {
        let numbers = [0i64, 1, -1, 63, -64, 64, i64::MAX, i64::MIN, 1 << 40];
        let mut encoder = Encoder(Vec::new());
        numbers.iter().for_each(|&n| encoder.i64(n));
        encoder.u64(u64::MAX);
        let bytes = encoder.seal(b"k");
        let mut decoder = Decoder::new(b"k", &bytes);
        for n in numbers {
            assert_eq!(decoder.i64().unwrap(), n);
        }
        assert_eq!(decoder.u64().unwrap(), u64::MAX);
        decoder.finish().unwrap();
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut encoder = Encoder(Vec::new());
        encoder.bytes(b"hello");
        encoder.i64(-5);
        let bytes = encoder.seal(b"k");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let mut decoder = Decoder::new(b"k", &bad);
                let read = decoder.bytes().and_then(|_| decoder.i64()).and_then(|_| decoder.finish());
                assert!(read.is_err(), "bit {bit} of byte {at}");
            }
        }
        assert!(Decoder::new(b"k", &[0xff; 11]).u64().is_err());
        let mut other_key = Decoder::new(b"other", &bytes);
        assert!(other_key.bytes().and_then(|_| other_key.i64()).and_then(|_| other_key.finish()).is_err());
    }
}
