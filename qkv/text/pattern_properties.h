// The properties that patterns may name, in PCRE2's language: Oniguruma's tables (Unicode 16) against those of
// PCRE2 10.42 (Unicode 14), measured character by character. Scripts are those of the character alone, without
// extensions.
#pragma once

#include <string_view>

#include "qkv/text/unicode_versions.h"

namespace qkv::text {

struct PatternProperty {
  std::string_view names;       // in lower case without '_', separated by '|'
  std::string_view base;        // PCRE2's
  std::string_view more, less;  // what Oniguruma's has more and less
};

// clang-format off
inline constexpr PatternProperty kPatternProperties[] = {
    {"l|letter", R"(\p{L})", kNewLetters, ""},
    {"lu|uppercaseletter", R"(\p{Lu})",
     R"(\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})", ""},
    {"ll|lowercaseletter", R"(\p{Ll})",
     R"(\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})", ""},
    {"lt|titlecaseletter", R"(\p{Lt})", "", ""},
    {"lm|modifierletter", R"(\p{Lm})",
     R"(\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}-\x{16d6c}\x{1e030}-\x{1e06d}\x{1e4eb})", ""},
    {"lo|otherletter", R"(\p{Lo})",
     R"(\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389})"
     R"(\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02})"
     R"(\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
     R"(\x{16d43}-\x{16d6a}\x{18cff}\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
     R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})", ""},
    {"m|mark|combiningmark", R"(\p{M})", kNewMarks, ""},
    {"mn|nonspacingmark", R"(\p{Mn})",
     R"(\x{897}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241}\x{113bb}-\x{113c0}\x{113ce}\x{113d0})"
     R"(\x{113d2}\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f36}-\x{11f3a}\x{11f40}\x{11f42}\x{11f5a}\x{13440})"
     R"(\x{13447}-\x{13455}\x{1611e}-\x{16129}\x{1612d}-\x{1612f}\x{1e08f}\x{1e4ec}-\x{1e4ef}\x{1e5ee}-\x{1e5ef})", R"(\x{1171e})"},
    {"mc|spacingmark", R"(\p{Mc})",
     R"(\x{cf3}\x{113b8}-\x{113ba}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113cd}\x{113cf}\x{1171e})"
     R"(\x{11f03}\x{11f34}-\x{11f35}\x{11f3e}-\x{11f3f}\x{11f41}\x{1612a}-\x{1612c})", ""},
    {"me|enclosingmark", R"(\p{Me})", "", ""},
    {"n|number", R"(\p{N})", kNewNumbers, ""},
    {"nd|decimalnumber", R"(\p{Nd})",
     R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
     R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})", ""},
    {"nl|letternumber", R"(\p{Nl})", "", ""},
    {"no|othernumber", R"(\p{No})", R"(\x{1d2c0}-\x{1d2d3})", ""},
    {"p|punctuation", R"(\p{P})", kNewPunctuation, ""},
    {"pc|connectorpunctuation", R"(\p{Pc})", "", ""},
    {"pd|dashpunctuation", R"(\p{Pd})", R"(\x{10d6e})", ""},
    {"ps|openpunctuation", R"(\p{Ps})", "", ""},
    {"pe|closepunctuation", R"(\p{Pe})", "", ""},
    {"pi|initialpunctuation", R"(\p{Pi})", "", ""},
    {"pf|finalpunctuation", R"(\p{Pf})", "", ""},
    {"po|otherpunctuation", R"(\p{Po})",
     R"(\x{1b4e}-\x{1b4f}\x{1b7f}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8}\x{11b00}-\x{11b09}\x{11be1})"
     R"(\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})", ""},
    {"s|symbol", R"(\p{S})",
     R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{10d8e}-\x{10d8f}\x{1cc00}-\x{1ccef})"
     R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb})"
     R"(\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf})"
     R"(\x{1fac6}\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})"
     R"(\x{1fbcb}-\x{1fbef})", ""},
    {"sm|mathsymbol", R"(\p{Sm})", R"(\x{10d8e}-\x{10d8f})", ""},
    {"sc|currencysymbol", R"(\p{Sc})", "", ""},
    {"sk|modifiersymbol", R"(\p{Sk})", "", ""},
    {"so|othersymbol", R"(\p{So})",
     R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{1cc00}-\x{1ccef}\x{1cd00}-\x{1ceb3})"
     R"(\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb}\x{1f8c0}-\x{1f8c1})"
     R"(\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6})"
     R"(\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8}\x{1fbcb}-\x{1fbef})", ""},
    {"z|separator", R"(\p{Z})", "", ""},
    {"zs|spaceseparator", R"(\p{Zs})", "", ""},
    {"zl|lineseparator", R"(\p{Zl})", "", ""},
    {"zp|paragraphseparator", R"(\p{Zp})", "", ""},
    {"cc|control", R"(\p{Cc})", "", ""},
    {"cf|format", R"(\p{Cf})", R"(\x{13439}-\x{1343f})", ""},
    {"co|privateuse", R"(\p{Co})", "", ""},
    {"ascii", R"(\p{ASCII})", "", ""},
    {"alphabetic", R"(\p{Alphabetic})",
     R"(\x{363}-\x{36f}\x{897}\x{c04}\x{cf3}\x{f82}-\x{f83}\x{1c89}-\x{1c8a}\x{1dd3}-\x{1de6}\x{a7cb}-\x{a7cd})"
     R"(\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d69}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4})"
     R"(\x{10efc}\x{11080}-\x{11081}\x{1123f}-\x{11241}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5})"
     R"(\x{113b7}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113cd}\x{113d1}\x{113d3})"
     R"(\x{11bc0}-\x{11be0}\x{11f00}-\x{11f10}\x{11f12}-\x{11f3a}\x{11f3e}-\x{11f40}\x{1342f}\x{13441}-\x{13446})"
     R"(\x{13460}-\x{143fa}\x{16100}-\x{1612e}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a})"
     R"(\x{1e030}-\x{1e06d}\x{1e08f}\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d})"
     R"(\x{31350}-\x{323af})", ""},
    {"uppercase", R"(\p{Uppercase})",
     R"(\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})", ""},
    {"lowercase", R"(\p{Lowercase})",
     R"(\x{10fc}\x{1c8a}\x{a7cd}\x{a7db}\x{a7f2}-\x{a7f4}\x{ab69}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})"
     R"(\x{1e030}-\x{1e06d})", ""},
    {"whitespace", R"(\p{White_Space})", "", ""},
    {"ideographic", R"(\p{Ideographic})",
     R"(\x{18cff}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})", ""},
    {"unifiedideograph", R"(\p{Unified_Ideograph})", R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})", ""},
    {"emoji", R"(\p{Emoji})",
     R"(\x{1f6dc}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6})"
     R"(\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})", ""},
    {"emojipresentation", R"(\p{Emoji_Presentation})",
     R"(\x{1f6dc}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6})"
     R"(\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})", ""},
    {"emojimodifier", R"(\p{Emoji_Modifier})", "", ""},
    {"emojimodifierbase", R"(\p{Emoji_Modifier_Base})", R"(\x{1faf7}-\x{1faf8})", ""},
    {"emojicomponent", R"(\p{Emoji_Component})", "", ""},
    {"extendedpictographic", R"(\p{Extended_Pictographic})", "", ""},
    {"hexdigit", R"(\p{Hex_Digit})", "", ""},
    {"asciihexdigit", R"(\p{ASCII_Hex_Digit})", "", ""},
    {"cased", R"(\p{Cased})",
     R"(\x{10fc}\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{a7f2}-\x{a7f4}\x{ab69}\x{10d50}-\x{10d65})"
     R"(\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})", ""},
    {"dash", R"(\p{Dash})", R"(\x{10d6e})", ""},
    {"math", R"(\p{Math})", R"(\x{10d8e}-\x{10d8f})", ""},
    {"quotationmark", R"(\p{Quotation_Mark})", "", ""},
    {"variationselector", R"(\p{Variation_Selector})", "", ""},
    {"regionalindicator", R"(\p{Regional_Indicator})", "", ""},
    {"arabic|arab", R"(\p{sc:Arabic})", R"(\x{897}\x{10ec2}-\x{10ec4}\x{10efc}-\x{10eff})", ""},
    {"armenian|armn", R"(\p{sc:Armenian})", "", ""},
    {"bengali|beng", R"(\p{sc:Bengali})", "", ""},
    {"bopomofo|bopo", R"(\p{sc:Bopomofo})", "", ""},
    {"braille|brai", R"(\p{sc:Braille})", "", ""},
    {"cherokee|cher", R"(\p{sc:Cherokee})", "", ""},
    {"common|zyyy", R"(\p{sc:Common})",
     R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{1cc00}-\x{1ccf9}\x{1cd00}-\x{1ceb3})"
     R"(\x{1d2c0}-\x{1d2d3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb})"
     R"(\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf})"
     R"(\x{1fac6}\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})"
     R"(\x{1fbcb}-\x{1fbef})", ""},
    {"coptic|copt", R"(\p{sc:Coptic})", "", ""},
    {"cyrillic|cyrl", R"(\p{sc:Cyrillic})", R"(\x{1c89}-\x{1c8a}\x{1e030}-\x{1e06d}\x{1e08f})", ""},
    {"devanagari|deva", R"(\p{sc:Devanagari})", R"(\x{11b00}-\x{11b09})", ""},
    {"ethiopic|ethi", R"(\p{sc:Ethiopic})", "", ""},
    {"georgian|geor", R"(\p{sc:Georgian})", "", ""},
    {"gothic|goth", R"(\p{sc:Gothic})", "", ""},
    {"greek|grek", R"(\p{sc:Greek})", "", ""},
    {"gujarati|gujr", R"(\p{sc:Gujarati})", "", ""},
    {"gurmukhi|guru", R"(\p{sc:Gurmukhi})", "", ""},
    {"han|hani", R"(\p{sc:Han})", R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})", ""},
    {"hangul|hang", R"(\p{sc:Hangul})", "", ""},
    {"hebrew|hebr", R"(\p{sc:Hebrew})", "", ""},
    {"hiragana|hira", R"(\p{sc:Hiragana})", R"(\x{1b132})", ""},
    {"inherited|zinh", R"(\p{sc:Inherited})", "", ""},
    {"kannada|knda", R"(\p{sc:Kannada})", R"(\x{cf3})", ""},
    {"katakana|kana", R"(\p{sc:Katakana})", R"(\x{1b155})", ""},
    {"khmer|khmr", R"(\p{sc:Khmer})", "", ""},
    {"lao|laoo", R"(\p{sc:Lao})", R"(\x{ece})", ""},
    {"latin|latn", R"(\p{sc:Latin})", R"(\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{1df25}-\x{1df2a})", ""},
    {"malayalam|mlym", R"(\p{sc:Malayalam})", "", ""},
    {"mongolian|mong", R"(\p{sc:Mongolian})", "", ""},
    {"myanmar|mymr", R"(\p{sc:Myanmar})", R"(\x{116d0}-\x{116e3})", ""},
    {"ogham|ogam", R"(\p{sc:Ogham})", "", ""},
    {"oriya|orya", R"(\p{sc:Oriya})", "", ""},
    {"runic|runr", R"(\p{sc:Runic})", "", ""},
    {"sinhala|sinh", R"(\p{sc:Sinhala})", "", ""},
    {"syriac|syrc", R"(\p{sc:Syriac})", "", ""},
    {"tamil|taml", R"(\p{sc:Tamil})", "", ""},
    {"telugu|telu", R"(\p{sc:Telugu})", "", ""},
    {"thaana|thaa", R"(\p{sc:Thaana})", "", ""},
    {"thai|thai", R"(\p{sc:Thai})", "", ""},
    {"tibetan|tibt", R"(\p{sc:Tibetan})", "", ""},
    {"yi|yiii", R"(\p{sc:Yi})", "", ""},
    {"javanese|java", R"(\p{sc:Javanese})", "", ""},
    {"balinese|bali", R"(\p{sc:Balinese})", R"(\x{1b4e}-\x{1b4f}\x{1b7f})", ""},
    {"sundanese|sund", R"(\p{sc:Sundanese})", "", ""},
    {"tifinagh|tfng", R"(\p{sc:Tifinagh})", "", ""},
    {"nko|nkoo", R"(\p{sc:Nko})", "", ""},
    {"canadianaboriginal|cans", R"(\p{sc:Canadian_Aboriginal})", "", ""},
    {"assigned", R"(\P{Cn})",
     R"(\x{897}\x{cf3}\x{ece}\x{1b4e}-\x{1b4f}\x{1b7f}\x{1c89}-\x{1c8a}\x{2427}-\x{2429}\x{2ffc}-\x{2fff})"
     R"(\x{31e4}-\x{31e5}\x{31ef}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d40}-\x{10d65})"
     R"(\x{10d69}-\x{10d85}\x{10d8e}-\x{10d8f}\x{10ec2}-\x{10ec4}\x{10efc}-\x{10eff}\x{1123f}-\x{11241})"
     R"(\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}-\x{113c0}\x{113c2}\x{113c5})"
     R"(\x{113c7}-\x{113ca}\x{113cc}-\x{113d5}\x{113d7}-\x{113d8}\x{113e1}-\x{113e2}\x{116d0}-\x{116e3})"
     R"(\x{11b00}-\x{11b09}\x{11bc0}-\x{11be1}\x{11bf0}-\x{11bf9}\x{11f00}-\x{11f10}\x{11f12}-\x{11f3a})"
     R"(\x{11f3e}-\x{11f5a}\x{1342f}\x{13439}-\x{13455}\x{13460}-\x{143fa}\x{16100}-\x{16139}\x{16d40}-\x{16d79})"
     R"(\x{18cff}\x{1b132}\x{1b155}\x{1cc00}-\x{1ccf9}\x{1cd00}-\x{1ceb3}\x{1d2c0}-\x{1d2d3}\x{1df25}-\x{1df2a})"
     R"(\x{1e030}-\x{1e06d}\x{1e08f}\x{1e4d0}-\x{1e4f9}\x{1e5d0}-\x{1e5fa}\x{1e5ff}\x{1f6dc}\x{1f774}-\x{1f776})"
     R"(\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb}\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89})"
     R"(\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6}\x{1face}-\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf})"
     R"(\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8}\x{1fbcb}-\x{1fbef}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})", ""},
};
// clang-format on

}  // namespace qkv::text
