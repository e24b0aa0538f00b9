#include "qkv/text/porter_stemmer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace qkv::text {
namespace {

bool IsVowel(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

// Whether each letter is a consonant; y is one at the beginning and after vowels.
std::vector<bool> Consonants(std::string_view word) {
  std::vector<bool> is_consonant;
  for (const char c : word) {
    is_consonant.push_back(c == 'y' ? is_consonant.empty() || !is_consonant.back() : !IsVowel(c));
  }
  return is_consonant;
}

// m of the paper: how often consonants follow vowels.
int Measure(std::string_view stem) {
  const std::vector<bool> is_consonant = Consonants(stem);
  int measure = 0;
  for (size_t i = 1; i < is_consonant.size(); ++i) measure += is_consonant[i] && !is_consonant[i - 1];
  return measure;
}

bool HasVowel(std::string_view stem) {
  return !std::ranges::all_of(Consonants(stem), [](bool is) { return is; });
}

// *d: the word ends with a double consonant.
bool EndsDouble(std::string_view word) {
  return word.size() >= 2 && word[word.size() - 1] == word[word.size() - 2] && Consonants(word).back();
}

// *o: it ends with consonant, vowel, consonant other than w, x and y; NLTK: or is a vowel and a consonant.
bool EndsShort(std::string_view word) {
  const std::vector<bool> is_consonant = Consonants(word);
  const size_t n = word.size();
  if (n == 2) return !is_consonant[0] && is_consonant[1];
  return n >= 3 && is_consonant[n - 3] && !is_consonant[n - 2] && is_consonant[n - 1] && word[n - 1] != 'w' &&
         word[n - 1] != 'x' && word[n - 1] != 'y';
}

struct Rule {
  std::string_view suffix, replacement;
};

// The first rule whose suffix the word has replaces it if the stem's measure is above `least`; no other is tried.
std::string Apply(std::string_view word, std::span<const Rule> rules, int least) {
  for (const Rule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    std::string stem(word.substr(0, word.size() - rule.suffix.size()));
    return Measure(stem) > least ? stem.append(rule.replacement) : std::string(word);
  }
  return std::string(word);
}

// Plurals.
std::string Step1a(std::string_view word) {
  constexpr Rule kRules[] = {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}};
  if (word.ends_with("ies") && word.size() == 4) return std::string(word.substr(0, 3));
  return Apply(word, kRules, -1);
}

// What remains of -ed and -ing.
std::string Restore(std::string stem) {
  for (const char* ending : {"at", "bl", "iz"}) {
    if (stem.ends_with(ending)) return stem + "e";
  }
  if (EndsDouble(stem)) {
    const char last = stem.back();
    if (last != 'l' && last != 's' && last != 'z') stem.pop_back();
    return stem;
  }
  return Measure(stem) == 1 && EndsShort(stem) ? stem + "e" : stem;
}

std::string Step1b(std::string_view word) {
  if (word.ends_with("ied")) return std::string(word.substr(0, word.size() - (word.size() == 4 ? 1 : 2)));
  if (word.ends_with("eed")) {
    return std::string(Measure(word.substr(0, word.size() - 3)) > 0 ? word.substr(0, word.size() - 1) : word);
  }
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix)) continue;
    const std::string_view stem = word.substr(0, word.size() - suffix.size());
    if (HasVowel(stem)) return Restore(std::string(stem));
  }
  return std::string(word);
}

// y after a consonant that is not the first letter becomes i.
std::string Step1c(std::string word) {
  if (!word.ends_with('y')) return word;
  const std::string_view stem = std::string_view(word).substr(0, word.size() - 1);
  if (stem.size() > 1 && Consonants(stem).back()) word.back() = 'i';
  return word;
}

std::string Step2(std::string word) {
  constexpr Rule kRules[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                             {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
                             {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                             {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                             {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
                             {"fulli", "ful"}};
  while (word.ends_with("alli") && Measure(std::string_view(word).substr(0, word.size() - 4)) > 0) {
    word.resize(word.size() - 2);
  }
  for (const Rule& rule : kRules) {
    if (word.ends_with(rule.suffix)) return Apply(word, kRules, 0);
  }
  // The l belongs to the stem.
  const bool is_science = word.ends_with("logi") && Measure(std::string_view(word).substr(0, word.size() - 3)) > 0;
  return is_science ? word.substr(0, word.size() - 1) : word;
}

std::string Step3(std::string_view word) {
  constexpr Rule kRules[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                             {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
  return Apply(word, kRules, 0);
}

std::string Step4(std::string_view word) {
  constexpr Rule kBefore[] = {{"al", ""},   {"ance", ""}, {"ence", ""},  {"er", ""},   {"ic", ""}, {"able", ""},
                              {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""}, {"ent", ""}};
  constexpr Rule kAfter[] = {{"ou", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""}, {"ous", ""}, {"ive", ""}, {"ize", ""}};
  for (const Rule& rule : kBefore) {
    if (word.ends_with(rule.suffix)) return Apply(word, kBefore, 1);
  }
  if (word.ends_with("ion")) {
    const std::string_view stem = word.substr(0, word.size() - 3);
    return std::string(Measure(stem) > 1 && (stem.back() == 's' || stem.back() == 't') ? stem : word);
  }
  return Apply(word, kAfter, 1);
}

std::string Step5(std::string word) {
  if (word.ends_with('e')) {
    const std::string_view stem = std::string_view(word).substr(0, word.size() - 1);
    if (Measure(stem) > 1 || (Measure(stem) == 1 && !EndsShort(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && Measure(std::string_view(word).substr(0, word.size() - 1)) > 1) word.pop_back();
  return word;
}

constexpr std::pair<std::string_view, std::string_view> kIrregular[] = {
    {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
    {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
    {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
    {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};

}  // namespace

std::string PorterStem(std::string_view word) {
  for (const auto& [irregular, stem] : kIrregular) {
    if (word == irregular) return std::string(stem);
  }
  if (word.size() <= 2) return std::string(word);
  return Step5(Step4(Step3(Step2(Step1c(Step1b(Step1a(word)))))));
}

}  // namespace qkv::text
