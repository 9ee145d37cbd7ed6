//! Words of closed lists: languages, licences, and the codes of a source in ours.

/// Three-letter codes and the two letters of the same language, bibliographic codes included.
const LANGUAGES: &str = "aar aa abk ab afr af aka ak alb sq amh am ara ar arg an arm hy asm as ava av ave ae aym ay \
    aze az bak ba bam bm baq eu bel be ben bn bih bh bis bi bod bo bos bs bre br bul bg bur my cat ca ces cs cha ch \
    che ce chi zh chu cu chv cv cor kw cos co cre cr cym cy cze cs dan da deu de div dv dut nl dzo dz ell el eng en \
    epo eo est et eus eu ewe ee fao fo fas fa fij fj fin fi fra fr fre fr fry fy ful ff geo ka ger de gla gd gle ga \
    glg gl glv gv gre el grn gn guj gu hat ht hau ha heb he her hz hin hi hmo ho hrv hr hun hu hye hy ibo ig ice is \
    ido io iii ii iku iu ile ie ina ia ind id ipk ik isl is ita it jav jv jpn ja kal kl kan kn kas ks kat ka kau kr \
    kaz kk khm km kik ki kin rw kir ky kom kv kon kg kor ko kua kj kur ku lao lo lat la lav lv lim li lin ln lit lt \
    ltz lb lub lu lug lg mac mk mah mh mal ml mao mi mar mr may ms mkd mk mlg mg mlt mt mon mn mri mi msa ms mya my \
    nau na nav nv nbl nr nde nd ndo ng nep ne nld nl nno nn nob nb nor no nya ny oci oc oji oj ori or orm om oss os \
    pan pa per fa pli pi pol pl por pt pus ps que qu roh rm ron ro rum ro run rn rus ru sag sg san sa scc sr scr hr \
    sin si slk sk slo sk slv sl sme se smo sm sna sn snd sd som so sot st spa es sqi sq srd sc srp sr ssw ss sun su \
    swa sw swe sv tah ty tam ta tat tt tel te tgk tg tgl tl tha th tib bo tir ti ton to tsn tn tso ts tuk tk tur tr \
    twi tw uig ug ukr uk urd ur uzb uz ven ve vie vi vol vo wel cy wln wa wol wo xho xh yid yi yor yo zha za zho zh \
    zul zu";

/// Names that sources write in full.
const LANGUAGE_NAMES: [(&str, &str); 16] = [
    ("english", "en"),
    ("spanish", "es"),
    ("español", "es"),
    ("castellano", "es"),
    ("portuguese", "pt"),
    ("português", "pt"),
    ("french", "fr"),
    ("français", "fr"),
    ("german", "de"),
    ("deutsch", "de"),
    ("italian", "it"),
    ("russian", "ru"),
    ("chinese", "zh"),
    ("japanese", "ja"),
    ("turkish", "tr"),
    ("indonesian", "id"),
];

/// Two letters where the language has them, else its three; a country is left out.
pub fn language(text: &str) -> Option<String> {
    let lower = text.trim().to_lowercase();
    if let Some((_, code)) = LANGUAGE_NAMES.iter().find(|(name, _)| *name == lower) {
        return Some((*code).to_owned());
    }
    let code = lower.split(['-', '_']).next().unwrap_or_default();
    let letters = code.bytes().all(|byte| byte.is_ascii_lowercase());
    // Undetermined, several, none: not a language.
    if !letters || matches!(code, "und" | "mul" | "zxx" | "mis" | "xx") {
        return None;
    }
    match code.len() {
        2 => Some(code.to_owned()),
        3 => {
            let mut words = LANGUAGES.split_ascii_whitespace();
            let short = words.by_ref().position(|word| word == code).and_then(|_| words.next());
            Some(short.unwrap_or(code).to_owned())
        }
        _ => None,
    }
}

/// A Creative Commons licence as `cc-by-4.0`, from its link or name; anything else as it is written. Of several
/// (publishers add terms for text mining) the first of Creative Commons, else the first.
pub fn licence(texts: &[String]) -> Option<String> {
    let open = texts.iter().find_map(|text| creative_commons(&text.trim().to_lowercase()));
    open.or_else(|| texts.iter().map(|text| text.trim()).find(|text| !text.is_empty()).map(str::to_owned))
}

fn creative_commons(lower: &str) -> Option<String> {
    if let Some((_, rest)) = lower.split_once("creativecommons.org/") {
        let mut parts = rest.split('/');
        let (kind, terms, version) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
        let version = version.split(['?', '#', ' ']).next().unwrap_or_default().trim_end_matches(['.', ',', ')']);
        let name = match (kind, terms) {
            ("publicdomain", "zero") => "cc0".to_owned(),
            ("publicdomain", "mark") => return Some("public-domain".to_owned()),
            ("licenses", terms) if is_terms(terms) => format!("cc-{terms}"),
            _ => return None,
        };
        return Some(with_version(&name, version));
    }
    let words: Vec<&str> = lower.split([' ', '-', '_']).filter(|word| !word.is_empty()).collect();
    let (version, words) = match words.split_last() {
        Some((last, words)) if last.starts_with(|first: char| first.is_ascii_digit()) => (*last, words),
        _ => ("", words.as_slice()),
    };
    let name = match words.split_first() {
        Some((&"cc0" | &"cc", [])) if lower.starts_with("cc0") => "cc0".to_owned(),
        Some((&"cc", terms)) if is_terms(&terms.join("-")) => format!("cc-{}", terms.join("-")),
        _ => return None,
    };
    Some(with_version(&name, version))
}

fn is_terms(terms: &str) -> bool {
    matches!(terms, "by" | "by-sa" | "by-nc" | "by-nd" | "by-nc-sa" | "by-nc-nd" | "by-nd-nc")
}

fn with_version(name: &str, version: &str) -> String {
    let numbered = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if numbered { format!("{name}-{version}") } else { name.to_owned() }
}

/// The codes of a source in ours: `journal-article=article; book=book; *=other`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes(Vec<(String, String)>);

impl Codes {
    pub fn parse(text: &str) -> Result<Codes, String> {
        let mut pairs = Vec::new();
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (theirs, ours) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not `theirs=ours`"))?;
            let (theirs, ours) = (theirs.trim().to_lowercase(), ours.trim().to_owned());
            if theirs.is_empty() || ours.is_empty() {
                return Err(format!("`{pair}` is not `theirs=ours`"));
            }
            if pairs.iter().any(|(known, _)| *known == theirs) {
                return Err(format!("`{theirs}` comes twice"));
            }
            pairs.push((theirs, ours));
        }
        match pairs.is_empty() {
            true => Err("a list of codes such as `journal-article=article; *=other` is missing".to_owned()),
            false => Ok(Codes(pairs)),
        }
    }

    /// Our codes that it can give.
    pub fn ours(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, ours)| ours.as_str())
    }

    /// The first entry that any of the words fits; `*` fits every word. So the list says which word weighs most.
    pub fn of(&self, words: &[String]) -> Option<&str> {
        if words.is_empty() {
            return None;
        }
        let words: Vec<String> = words.iter().map(|word| word.trim().to_lowercase()).collect();
        let fits = |theirs: &str| theirs == "*" || words.iter().any(|word| word == theirs);
        self.0.iter().find(|(theirs, _)| fits(theirs)).map(|(_, ours)| ours.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_and_licences_have_one_form() {
        for (text, want) in [
            ("eng", Some("en")),
            ("EN", Some("en")),
            ("en-US", Some("en")),
            ("ger", Some("de")),
            ("deu", Some("de")),
            ("zul", Some("zu")),
            ("grc", Some("grc")),
            ("Spanish", Some("es")),
            ("und", None),
            ("x1", None),
            ("", None),
        ] {
            assert_eq!(language(text).as_deref(), want, "{text}");
        }
        for (text, want) in [
            ("http://creativecommons.org/licenses/by/4.0/", "cc-by-4.0"),
            ("https://creativecommons.org/licenses/by-nc-nd/3.0/legalcode", "cc-by-nc-nd-3.0"),
            ("https://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0"),
            ("See http://creativecommons.org/licenses/by-nc-nd/3.0.", "cc-by-nc-nd-3.0"),
            ("CC BY-NC", "cc-by-nc"),
            ("cc_by_nc_nd", "cc-by-nc-nd"),
            ("cc0", "cc0"),
            ("CC BY 4.0", "cc-by-4.0"),
            ("https://www.elsevier.com/tdm/userlicense/1.0/", "https://www.elsevier.com/tdm/userlicense/1.0/"),
        ] {
            assert_eq!(licence(&[text.to_owned()]).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn of_several_licences_the_open_one_counts() {
        let texts = ["https://example.org/tdm", "http://creativecommons.org/licenses/by/4.0/"].map(str::to_owned);
        assert_eq!(licence(&texts).as_deref(), Some("cc-by-4.0"));
        assert_eq!(licence(&texts[..1]).as_deref(), Some("https://example.org/tdm"));
        assert_eq!(licence(&[]), None);
    }

    #[test]
    fn the_order_of_codes_says_which_word_weighs_most() {
        let codes = Codes::parse("Review=review; journal article=article; *=other").unwrap();
        let of = |words: &[&str]| {
            codes.of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).map(str::to_owned)
        };
        assert_eq!(of(&["Journal Article", "review"]).as_deref(), Some("review"));
        assert_eq!(of(&["Journal Article"]).as_deref(), Some("article"));
        assert_eq!(of(&["Lecture"]).as_deref(), Some("other"));
        assert_eq!(of(&[]), None);
        for wrong in ["", "a", "a=", "=b", "a=b; A=c"] {
            assert!(Codes::parse(wrong).is_err(), "{wrong}");
        }
    }
}
