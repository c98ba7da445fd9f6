// Schemas of PyTorch's operators.
//
// Reads the generated text once, on first use: a few milliseconds, where
// thousands of constructors would cost minutes of compilation.

#include "fsdp/Dialect/Aten/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

using namespace fsdp::aten;
using llvm::SmallVector;
using llvm::StringRef;

static const char kText[] =
#include "fsdp/Dialect/Aten/Schemas.inc"
    ;

static Kind kindOf(char letter) {
  static const char letters[] = "TIFBSNCDLMVG";
  size_t position = StringRef(letters).find(letter);
  return position == StringRef::npos ? Kind::Other : Kind(position);
}

/// Reads "T?[]": a kind letter and its suffixes from the inside out.
static SchemaType parseType(StringRef text) {
  SchemaType type;
  type.kind = kindOf(text.front());
  text = text.drop_front();
  bool question = text.consume_front("?");
  type.list = text.consume_front("[]");
  bool listQuestion = text.consume_front("?");
  type.optionalMembers = type.list && question;
  type.optional = type.list ? listQuestion : question;
  return type;
}

static AliasInfo parseAlias(StringRef text) {
  AliasInfo alias;
  if (text == "-")
    return alias;
  alias.isWrite = text.consume_back("!");
  alias.sets = text;
  return alias;
}

static Schema parseLine(StringRef line) {
  Schema schema;
  SmallVector<StringRef, 5> fields;
  line.split(fields, '\t');
  schema.name = fields[0];
  schema.overload = fields[1];
  (void)fields[2].getAsInteger(10, schema.tags);

  SmallVector<StringRef, 16> items;
  fields[3].split(items, '|', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef item : items) {
    SmallVector<StringRef, 4> parts;
    item.split(parts, ' ');
    Argument argument{parts[0], parseType(parts[1]), parseAlias(parts[2]), {}};
    if (parts[3] != "-")
      argument.defaultText = parts[3];
    schema.arguments.push_back(argument);
  }
  items.clear();
  fields[4].split(items, '|', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef item : items) {
    auto [type, alias] = item.split(' ');
    schema.results.push_back({parseType(type), parseAlias(alias)});
  }
  return schema;
}

namespace {
struct Table {
  std::vector<Schema> schemas;
  llvm::StringMap<const Schema *> byCallee;

  Table() {
    SmallVector<StringRef, 0> lines;
    StringRef(kText, sizeof(kText) - 1).split(lines, '\n', -1, false);
    schemas.reserve(lines.size());
    for (StringRef line : lines)
      schemas.push_back(parseLine(line));
    for (const Schema &schema : schemas)
      byCallee[schema.callee()] = &schema;
  }
};
} // namespace

static const Table &table() {
  static const Table instance;
  return instance;
}

bool AliasInfo::intersects(const AliasInfo &other) const {
  SmallVector<StringRef, 2> mine, theirs;
  sets.split(mine, ',', -1, false);
  other.sets.split(theirs, ',', -1, false);
  return llvm::any_of(
      mine, [&](StringRef s) { return llvm::is_contained(theirs, s); });
}

const Argument *Schema::findArgument(StringRef wanted) const {
  auto it = llvm::find_if(arguments,
                          [&](const Argument &a) { return a.name == wanted; });
  return it == arguments.end() ? nullptr : &*it;
}

std::string Schema::callee() const {
  StringRef text = name;
  text.consume_front("aten::");
  return overload.empty() ? text.str() : (text + "." + overload).str();
}

const Schema *fsdp::aten::lookup(StringRef callee) {
  callee.consume_front("aten::");
  return table().byCallee.lookup(callee);
}

const Schema *fsdp::aten::lookup(StringRef name, StringRef overload) {
  name.consume_front("aten::");
  if (overload.empty())
    return table().byCallee.lookup(name);
  return table().byCallee.lookup((name + "." + overload).str());
}

std::optional<fsdp::plan::OperatorSchema>
fsdp::aten::findOperatorSchema(const std::string &name,
                               const std::string &overload) {
  const Schema *schema = lookup(name, overload);
  if (!schema)
    return std::nullopt;
  auto setsOf = [](const AliasInfo &alias) {
    SmallVector<StringRef, 2> sets;
    alias.sets.split(sets, ',', -1, false);
    return std::vector<std::string>(sets.begin(), sets.end());
  };
  plan::OperatorSchema out;
  for (const Argument &argument : schema->arguments)
    out.arguments.push_back({argument.name.str(), argument.type,
                             setsOf(argument.alias), argument.alias.isWrite,
                             argument.defaultText.has_value()});
  for (const Result &result : schema->results)
    out.results.push_back(
        {"", result.type, setsOf(result.alias), result.alias.isWrite, false});
  return out;
}

std::string fsdp::aten::suggest(StringRef callee) {
  callee.consume_front("aten::");
  StringRef base = callee.split('.').first;
  std::string overloads;
  SmallVector<std::pair<unsigned, std::string>> near;
  for (const Schema &schema : table().schemas) {
    std::string candidate = schema.callee();
    StringRef name = StringRef(candidate).split('.').first;
    if (name == base)
      overloads += (overloads.empty() ? "\"" : ", \"") + candidate + "\"";
    unsigned distance = name.edit_distance(base, true, 3);
    if (distance <= 2 && distance < base.size())
      near.push_back({distance, candidate});
  }
  if (!overloads.empty())
    return "its overloads are " + overloads;
  if (near.empty())
    return "";
  llvm::sort(near);
  return "did you mean \"" + near.front().second + "\"";
}
