//! The text that SPDY/3 compresses headers against, as its draft (section 2.6.10.1) lists it.

/// The words, parted by commas, each in the dictionary with its length in four bytes before it.
const WORDS: &str = "\
    options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,\
    accept-ranges,age,allow,authorization,cache-control,connection,content-base,content-encoding,\
    content-language,content-length,content-location,content-md5,content-range,content-type,date,etag,\
    expect,expires,from,host,if-match,if-modified-since,if-none-match,if-range,if-unmodified-since,\
    last-modified,location,max-forwards,pragma,proxy-authenticate,proxy-authorization,range,referer,\
    retry-after,server,te,trailer,transfer-encoding,upgrade,user-agent,vary,via,warning,\
    www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,keep-alive,origin";

/// What follows them.
const REST: &str = "\
    100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au\
    thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd\
    en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma\
    y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag\
    e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri\
    vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// The dictionary as it is compressed against.
pub(super) fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split(',') {
        // The longest word has some twenty letters.
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_checksum_by_which_clients_name_it() {
        let (mut a, mut b) = (1u32, 0u32);
        for byte in dictionary() {
            a = (a + u32::from(byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!(b << 16 | a, 0xe3c6_a7c2);
    }
}
