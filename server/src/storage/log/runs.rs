//! Records that lie close together in the log are read together: a system call for each would cost more than the reading.

use std::sync::Arc;

use bytes::Bytes;

use super::record;
use super::segment::{Location, Segments};
use crate::storage::Error;

/// Records with at most so much between them are read together: reading on is cheaper than another call.
const RUN_GAP_BYTES: u32 = 4 << 10;
/// Bytes read together, but for a record that is larger.
const RUN_BYTES_MAX: u32 = 256 << 10;

/// Cuts what is in the order of its places, in the log, into stretches that are read together.
pub(in crate::storage) fn runs<T>(
    sorted: &[T],
    place: impl Fn(&T) -> Location,
) -> impl Iterator<Item = (&[T], Location)> {
    let mut rest = sorted;
    std::iter::from_fn(move || {
        let start = place(rest.first()?);
        let mut end = start.offset + start.len;
        let mut taken = 1;
        for next in rest[1..].iter().map(&place) {
            let is_close = next.segment == start.segment
                && next.offset <= end.saturating_add(RUN_GAP_BYTES)
                && next.offset + next.len - start.offset <= RUN_BYTES_MAX;
            if !is_close {
                break;
            }
            end = end.max(next.offset + next.len);
            taken += 1;
        }
        let (run, others) = rest.split_at(taken);
        rest = others;
        Some((run, Location { len: end - start.offset, ..start }))
    })
}

impl Segments {
    /// Reads records by their places, in whatever order, and verifies them.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a record that is not whole or whose segment is not there, [`Error::Io`].
    pub(in crate::storage) fn read_records(&self, places: &[Location]) -> Result<Vec<Bytes>, Error> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|at| (places[*at].segment, places[*at].offset));
        let mut records = vec![Bytes::new(); places.len()];
        for (run, stretch) in runs(&order, |at| places[*at]) {
            let segment = self.get(u64::from(stretch.segment)).ok_or_else(|| Error::Damaged {
                segment: u64::from(stretch.segment),
                revision: 0,
                reason: Arc::from("the segment of a record is not there"),
            })?;
            let bytes = segment.read_bytes(stretch.offset, stretch.len as usize)?;
            for at in run {
                let from = (places[*at].offset - stretch.offset) as usize;
                let one = bytes.slice(from..from + places[*at].len as usize);
                match record::verify(&one) {
                    Ok(len) if len == one.len() => records[*at] = one,
                    Ok(_) => return Err(segment.damaged("a record has another length than its place says")),
                    Err(reason) => return Err(segment.damaged(reason)),
                }
            }
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_close_together_is_read_together() {
        let place = |segment, offset, len| Location { segment, offset, len };
        let cut = |places: &[Location]| -> Vec<(usize, Location)> {
            runs(places, |place| *place).map(|(run, stretch)| (run.len(), stretch)).collect()
        };
        assert_eq!(cut(&[]), []);
        let close = [place(1, 100, 50), place(1, 150, 50), place(1, 200 + RUN_GAP_BYTES, 10)];
        assert_eq!(cut(&close), [(3, place(1, 100, 110 + RUN_GAP_BYTES))]);
        let far = [place(1, 100, 50), place(1, 151 + RUN_GAP_BYTES, 50), place(2, 100, 50)];
        assert_eq!(cut(&far), [(1, far[0]), (1, far[1]), (1, far[2])]);
        let large = [place(1, 0, RUN_BYTES_MAX), place(1, RUN_BYTES_MAX, 1)];
        assert_eq!(cut(&large), [(1, large[0]), (1, large[1])]);
    }
}
